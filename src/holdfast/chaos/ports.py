"""Ports that never answer: one that refuses connections, and one that leaves them hanging."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

HOST = "127.0.0.1"
FILLERS = 4


@contextmanager
def closed_port() -> Generator[int]:
    """A port on loopback that refuses every connection, reserved so that nobody else takes it."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        yield sock.getsockname()[1]


@contextmanager
def silent_port() -> Generator[int]:
    """A port on loopback where a connection is neither accepted nor refused (Linux: its backlog is full)."""
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.bind((HOST, 0))
        sock.listen(0)
        address = sock.getsockname()
        # Linux drops further connection requests once the backlog is full, as a dead network would.
        for _ in range(FILLERS):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield address[1]
