"""The simulated machine: virtual time, clocks, network, disks, and the cluster that drives the nodes."""
