"""Ports for servers that a test starts later, or starts again, on the same port."""

import random
import socket
from contextlib import ExitStack

# Below what systems give to whoever asks for any port: otherwise, between two lives of a server, a connection
# of another test could get its port.
_LOWEST, _HIGHEST = 20_000, 32_000
_RESERVED: list[socket.socket] = []


def reserved_port() -> int:
    """A loopback port that nobody uses now, and no other test until this process ends."""
    for port in random.sample(range(_LOWEST, _HIGHEST), 1_000):
        with ExitStack() as held, socket.socket() as probe:
            # Datagrams have ports of their own, so this is a mark that all test processes see.
            mark = held.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            try:
                mark.bind(("127.0.0.1", port))
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            held.pop_all()
            _RESERVED.append(mark)
            return port
    raise AssertionError("every port is taken")
