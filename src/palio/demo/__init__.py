"""The demonstration: a small network of servers on this machine, live feeds, and parties who want some of it."""
