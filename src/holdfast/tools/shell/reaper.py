"""Adopts orphans and reaps those that died, without taking children that others wait for."""

import asyncio
import ctypes
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct, field

from holdfast.supervision import BackgroundTasks
from holdfast.tools.offload import offload
from holdfast.tools.shell.process_table import ON_LINUX, look, table
from holdfast.tools.shell.scope import Scope

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
GRACE_S = 10.0


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process, on Linux; for the program's edge alone.

    It changes who adopts other code's orphans, so an embedded agent does not call it.
    """
    return _set_subreaper(on=True)


def _set_subreaper(*, on: bool) -> bool:
    return ON_LINUX and ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


def _is_subreaper() -> bool:
    if not ON_LINUX:
        return False
    answer = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


class OrphanReaper(Struct):
    """Reaps dead children without a waiter.

    A child with a waiter is reaped within moments of its death. So a death is only recorded at first (peeked
    at, not reaped); a child that is still there after the grace period has no waiter.
    """

    grace_s: float = GRACE_S
    monotonic_s: Callable[[], float] = time.monotonic
    _dead_since_s: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

    def collect(self) -> list[int]:
        """Reap those whose grace period is over, and return their pids; blocks, so call it off the loop."""
        now_s = self.monotonic_s()
        dead = {(row.pid, row.born_ticks) for row in table() if row.parent == os.getpid() and row.is_dead}
        self._dead_since_s = {key: self._dead_since_s.get(key, now_s) for key in dead}
        over = [pid for (pid, _), since_s in self._dead_since_s.items() if now_s - since_s >= self.grace_s]
        return [pid for pid in over if reap(pid)]


@asynccontextmanager
async def orphans_adopted(
    orphans: OrphanReaper, background: BackgroundTasks, *, every_s: float = 5.0
) -> AsyncGenerator[None]:
    """Adopt orphaned descendants and reap them when they die.

    On leaving, the process adopts only what it did before: with nobody to reap them, orphans would stay
    as zombies.
    """
    did_before = _is_subreaper()
    become_subreaper()
    collecting = background.start("orphaned processes", partial(_collect_forever, orphans, every_s))
    try:
        yield
    finally:
        _set_subreaper(on=did_before)
        await background.end(collecting)


async def _collect_forever(orphans: OrphanReaper, every_s: float) -> None:
    while True:
        await offload(orphans.collect)
        await asyncio.sleep(every_s)


def reap(pid: int) -> bool:
    """Reap one child, if it is ours, dead, and not reaped yet."""
    try:
        # Peek first: only a death is taken, and only this pid's. waitpid(-1) would take anybody's.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return False


def reap_adopted(scope: Scope) -> None:
    """Reap members of a killed scope that we adopted, which have no other waiter."""
    for pid, born_ticks in scope.ever.items():
        row = look(pid)
        if row and row.is_dead and row.born_ticks == born_ticks and pid != scope.leader:
            reap(pid)
