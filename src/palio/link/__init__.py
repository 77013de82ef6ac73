"""Links between servers: a reliable sequence of messages in each direction, over a network that loses frames."""
