"""Links between servers: everything in one sequence for each direction, whatever the network below does to it."""
