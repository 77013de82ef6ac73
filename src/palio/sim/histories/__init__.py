"""Histories: what happens to a network, step by step; playing them, and the facts that are recorded meanwhile."""
