"""Faults that the simulator injects: crashes between two effects of a server, and nodes that fail at marked inputs."""
