"""Routing: pure machines that decide what servers tell each other and where notifications go."""
