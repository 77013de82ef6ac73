"""A simulator that drives the very nodes that a server drives, and tries to break them."""
