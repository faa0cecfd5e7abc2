"""The watchdog process, which kills a server's foreground tools when the server's lease is about to end.

Where servers share a database, another one may continue a session when this one's lease has run out, and its
commands must be dead by then: also if this server is frozen, cut off or killed. The server writes to the
watchdog's standard input, as eight bytes, when it sent each request that has renewed its lease. Each write is
answered with a dot, and each killing with an exclamation mark before it. Commands that work on files of this
machine go on: no other server continues their sessions. They are killed only if the server ends.

It is started by its path, before any import path is set, so at first it imports only the standard library.
It ends when the server does.
"""

import os
import select
import signal
import struct
import sys
import time

BEAT = struct.Struct("=d")
ALIVE, KILLING = b".", b"!"
TERM_S = 0.3  # the time a command has to exit on its own
KILL_S = 5.0
LOOK_S = 0.25  # a poll doesn't count the time that the machine sleeps, so it must be short
AGAIN_S_MAX = 4.0  # between two looks for tools while the server stays silent
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def main() -> None:
    """Watch over the tools of the server that started this process."""
    package_root, server, outer, token, silence_s = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    if package_root not in sys.path:
        sys.path.append(package_root)
    from holdfast.tools.shell.server_tools import ServerTools, SharedTools

    os.set_blocking(sys.stdout.fileno(), False)
    tools = ServerTools(int(server), token=token, outer=int(outer))
    shared = SharedTools(int(server), token=token, outer=int(outer))
    last_s = now_s()
    again_s, next_s = LOOK_S, 0.0
    while True:
        left_s = last_s + float(silence_s) - now_s()
        readable, _, _ = select.select([sys.stdin], [], [], min(LOOK_S, left_s) if left_s > 0 else LOOK_S)
        if readable:
            data = os.read(sys.stdin.fileno(), 1024)
            if not data:
                tools.kill(TERM_S, KILL_S)
                return
            last_s = max(last_s, *(sent_s for (sent_s,) in BEAT.iter_unpack(data)))
            _answer(ALIVE)
        if now_s() - last_s < float(silence_s):
            again_s, next_s = LOOK_S, 0.0
        elif now_s() >= next_s:
            if shared.living():
                _answer(KILLING)
                shared.kill(TERM_S, KILL_S)
            next_s, again_s = now_s() + again_s, min(2 * again_s, AGAIN_S_MAX)


def now_s() -> float:
    """The time on the clock that the server uses for its lease."""
    return time.clock_gettime(_STEADY)


def _answer(said: bytes) -> None:
    try:
        os.write(sys.stdout.fileno(), said)
    except (BlockingIOError, BrokenPipeError):
        return  # the server is frozen, or has just ended


if __name__ == "__main__":
    main()
