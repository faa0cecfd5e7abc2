"""How many bytes that were written to a socket its peer has not acknowledged, if the system tells."""

import socket
import sys

if sys.platform == "linux":
    import fcntl
    import termios

    def unsent_bytes(bare: socket.socket | None) -> int:
        """The bytes that the kernel still holds; 0 for a closed socket, or without one."""
        if bare is None or bare.fileno() < 0:
            return 0
        answer = fcntl.ioctl(bare.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
else:

    def unsent_bytes(bare: socket.socket | None) -> int:  # noqa: ARG001  # only Linux tells
        """Always 0: only Linux tells."""
        return 0
