"""The child process that parses long commands: one request after the other, each with a time limit.

It is started by its path, before any import path is set, so at first it imports only the standard library.
Requests and answers are frames on the socket that is its standard input; it ends when the other side does.
"""

import signal
import socket
import sys
from io import BufferedRWPair

LENGTH_BYTES = 4


def main() -> None:
    """Answer requests until there are no more."""
    package_root, patience_s = sys.argv[1], float(sys.argv[2])
    # Ctrl-C is for the parent process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if package_root not in sys.path:
        sys.path.append(package_root)
    import msgspec

    from holdfast.policy.shell.verdicts import steps_of

    with socket.socket(fileno=0) as channel, channel.makefile("rwb") as stream:
        while (request := _next(stream)) is not None:
            # When the time is over, the system ends us, even inside the parser, and even if no one is left
            # to do it.
            signal.setitimer(signal.ITIMER_REAL, patience_s)
            steps = steps_of(msgspec.msgpack.decode(request, type=tuple[str, ...]))
            signal.setitimer(signal.ITIMER_REAL, 0)
            stream.writelines(framed(msgspec.msgpack.encode(step)) for step in steps)
            stream.write(framed(b""))
            stream.flush()


def framed(body: bytes) -> bytes:
    """A frame: its length and its body; an empty one ends an answer."""
    return len(body).to_bytes(LENGTH_BYTES) + body


def _next(stream: BufferedRWPair) -> bytes | None:
    length = stream.read(LENGTH_BYTES)
    return stream.read(int.from_bytes(length)) if len(length) == LENGTH_BYTES else None


if __name__ == "__main__":
    main()
