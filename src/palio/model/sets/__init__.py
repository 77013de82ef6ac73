"""Canonical sets of values: what the constraints on one attribute allow, and how such sets relate."""
