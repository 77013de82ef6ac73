"""A server without sockets, clock and disk: what comes in goes through pure machines, and what goes out is said."""
