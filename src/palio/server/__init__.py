"""The event server: drives a node with sockets and a real clock."""
