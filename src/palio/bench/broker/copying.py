"""A process that is no broker: what the publisher sends is written to all parties as it is, in compiled code.

What the load generator reaches with it is what it could reach with a broker that costs nothing.
"""

from __future__ import annotations

import socket
import sys

from palio.bench._load import copy_to_all
from palio.bench.broker.processes import HOST


def serve(port: int) -> None:
    """Wait for parties, and for the publisher, who comes last; and again when it has gone."""
    with socket.create_server((HOST, port), backlog=1024) as listener:
        while True:
            parties: list[socket.socket] = []
            while (role := (connection := listener.accept()[0]).recv(1)) != b"p":
                if role:  # not somebody who only looked whether there is a listener
                    connection.sendall(role)
                    parties.append(connection)
            copy_to_all(connection.fileno(), [party.fileno() for party in parties])
            for each in (connection, *parties):
                each.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
