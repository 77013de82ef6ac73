"""Random histories by seed, for each suite."""
