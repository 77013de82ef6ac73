"""The invariants: what must hold when a network is at rest, computed from scratch, and from the recorded facts."""
