"""Benchmarks: speed as figures that can be compared, each with a baseline measured in the same run."""
