"""A process whose memory, environment and open files no other program of the same user can read."""

import logging
import sys

_log = logging.getLogger(__name__)
_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Hide this process from tools that run as the same user, for as long as it lives; Linux alone has this.

    Its keys are in its environment and its memory, which /proc and ptrace show to every program of the same
    user. Root can still read both. There is no core dump of a hidden process, and a debugger or profiler has
    to be run as root. Programs that are started from here are not hidden.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # most commands of this program need it for nothing else

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        _log.warning("this process could not be hidden (errno %d)", ctypes.get_errno())
