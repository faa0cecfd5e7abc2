"""The ways out of a program that runs tools: whichever it takes, the tools are dead first."""

import signal
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

from holdfast.cli.terminal.output import restore
from holdfast.tools.shell.forced_exit import force_exit, kill_foreground

AT_ONCE = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def kill_tools_on_exit() -> Generator[None]:
    """Kill running tools when the block ends, also on an exception or a fatal signal."""
    # Under nohup it is to outlive its terminal.
    taken = [number for number in AT_ONCE if signal.getsignal(number) != signal.SIG_IGN]
    tidy = _terminal_as_it_is()

    def at_once(number: int, frame: FrameType | None) -> None:
        del frame
        tidy()
        force_exit(number)

    before = {number: signal.signal(number, at_once) for number in taken}
    try:
        yield
    finally:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would cut this short
        kill_foreground()
        signal.signal(signal.SIGINT, interrupt)
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _terminal_as_it_is() -> Callable[[], None]:
    """Return a function that restores the current terminal mode, for abrupt exits."""
    try:
        terminal = sys.stdin.fileno()
        mode = termios.tcgetattr(terminal)
    except (OSError, ValueError, AttributeError, termios.error):
        return lambda: None  # no terminal, or no standard input at all

    def tidy() -> None:
        # It may be gone: a closed window is a way out too.
        with suppress(OSError, termios.error):
            restore()
            termios.tcsetattr(terminal, termios.TCSANOW, mode)

    return tidy
