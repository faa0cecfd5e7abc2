"""How much of what was written to a socket its peer has not taken yet, as far as the system tells."""

import socket
import sys

if sys.platform == "linux":
    import fcntl
    import termios

    def unsent_bytes(bare: socket.socket | None) -> int:
        """What the kernel still holds; nothing of a socket that is closed, or of none."""
        if bare is None or bare.fileno() < 0:
            return 0
        answer = fcntl.ioctl(bare.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
else:

    def unsent_bytes(bare: socket.socket | None) -> int:  # noqa: ARG001  # only Linux tells
        """What the kernel still holds; only Linux tells."""
        return 0
