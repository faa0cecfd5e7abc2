"""The ways out of a program that runs tools: whichever it takes, the tools are dead first."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from holdfast.tools.quick_end import end_now, kill_foreground

AT_ONCE = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def tools_die_first() -> Generator[None]:
    """See to it until this is left, by an exception too; a signal that nobody else takes ends the program."""
    # Under nohup it is to outlive its terminal.
    taken = [number for number in AT_ONCE if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, at_once) for number in taken}
    try:
        yield
    finally:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would cut this short
        kill_foreground()
        signal.signal(signal.SIGINT, interrupt)
        for number, earlier in before.items():
            signal.signal(number, earlier)


def at_once(number: int, frame: FrameType | None) -> None:
    """End the program now; for `signal.signal`."""
    del frame
    end_now(number)
