"""Hides this process's memory, environment and open files from other programs of the same user."""

import logging
import sys

_log = logging.getLogger(__name__)
_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Hide this process from tools that run as the same user. This works on Linux only.

    Its environment and memory contain keys, which /proc and ptrace would show to every program of the same
    user. Root can still read both. A hidden process leaves no core dump, and you need root to debug it.
    Programs that it starts are not hidden.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # most commands of this program need it for nothing else

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        _log.warning("could not hide this process from other programs (errno %d)", ctypes.get_errno())
