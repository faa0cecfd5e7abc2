"""Exits quickly on a signal: kills what tools run in the foreground, then this process."""

import os
import signal
import threading
from typing import NoReturn

from msgspec import Struct, field

from holdfast.tools.shell.marker import is_background, markers_in
from holdfast.tools.shell.process_table import ProcessEntry, environ_of, table, tag_of, with_descendants
from holdfast.tools.shell.scope import KillPatience, kill_scope, send

PATIENCE = KillPatience(term_s=0.5, kill_s=5.0)
_LOOKS = 5
_LOOK_AGAIN_S = 0.02


def force_exit(number: int) -> NoReturn:
    """End this process as the signal would, once nothing runs in the foreground; safe in a signal handler."""
    for _ in range(_LOOKS):
        # More than once: a thread of ours may be about to start something.
        kill_foreground()
        threading.Event().wait(_LOOK_AGAIN_S)
    os._exit(128 + number)


def kill_foreground(patience: KillPatience = PATIENCE) -> tuple[ProcessEntry, ...]:
    """Kill every process below this one that is not a background process; returns the survivors. Blocks.

    It takes no lock and waits for no thread, so it can be called at any point. Only a
    subreaper (`become_subreaper`) has everything it started below itself.
    """
    return kill_scope(_Below(), patience=patience) if _has_children() else ()


class _Below(Struct):
    """All processes below this one, without background processes and what they started."""

    leader: int = 0
    _outer: int = field(default_factory=lambda: len(list(markers_in(environ_of(os.getpid())))))

    def living(self) -> list[ProcessEntry]:
        rows = table()
        own = os.getpid()
        below = with_descendants(rows, {own})
        spared = with_descendants(rows, {pid for pid in below if pid != own and self._may_stay(pid)})
        return [row for row in rows if row.pid in below - spared - {own} and not row.is_dead]

    def signal(self, members: list[ProcessEntry], number: signal.Signals) -> None:
        for member in members:
            send(member, number)

    def _may_stay(self, pid: int) -> bool:
        # The marks that we were started with ourselves come first; the one after them is ours.
        marks = list(markers_in(environ_of(pid)))[self._outer :]
        return marks[0].background if marks else is_background(tag_of(pid))


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
