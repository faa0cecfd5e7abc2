"""What is deleted goes for good once it cannot be taken back; a task of the application sees to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.rows import SessionRow
from holdfast.interfaces.journal import JournalError, RunQuery, StoreDamaged
from holdfast.server.deps import RouteDeps
from holdfast.values import OPENAI

_log = logging.getLogger(__name__)

LOOK_S = 3600.0  # how often sessions of plain OpenAI clients are looked through for old ones
AGAIN_S = 60.0  # how soon a purge that failed is tried again
SWEEP_S = 86_400.0  # how often blobs are looked through for those that no event came to name
UNNAMED_S = 7 * SWEEP_S  # a tab may stay open for days with a file that is not sent yet
STOPPED_S = 15.0  # how long a purge waits for the session's runs to end
AT_ONCE = 100


class RunsGoOn(JournalError):
    """A session is not purged, as runs of it do not end."""


class Purges:
    """Purges what is due; `run` is owned by the application's lifespan."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._wanted = asyncio.Event()
        self._sweep_at_s = 0.0
        self._due_s: dict[tuple[str, int], float] = {}  # when each deletion is final, by the steady clock

    def look_again(self) -> None:
        """Something was deleted."""
        self._wanted.set()

    async def run(self) -> None:
        """Purge what is due, then sleep until something else is."""
        while True:
            self._wanted.clear()
            wait_s = min(await self._tried(self._purge_due), await self._tried(self._sweep_due))
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _tried(self, work: Callable[[], Awaitable[float]]) -> float:
        """How long until there is more to do."""
        try:
            return await work()
        except JournalError as error:
            _log.warning("some deleted data isn't purged yet; Holdfast will try again: %s", error)
        except Exception as error:  # noqa: BLE001  # what comes after it is to go all the same
            _log.error("some deleted data isn't purged, because of a bug in Holdfast", exc_info=error)
        return AGAIN_S

    async def _sweep_due(self) -> float:
        """How long until the next is due."""
        now_s = self._deps.clock.monotonic_s()
        if now_s >= self._sweep_at_s:
            if not self._deps.supervisor.has_caught_up:
                return AGAIN_S  # events of an earlier life are still to come, and name blobs of it
            # Also if it fails: who could not write meanwhile has days to name what was put.
            self._sweep_at_s = now_s + SWEEP_S
            await self._deps.store.sweep_blobs(unnamed_for_s=UNNAMED_S)
        return self._sweep_at_s - now_s

    async def _purge_due(self) -> float:
        """How long until the next is due."""
        limits, now_ms = self._deps.limits, self._deps.clock.now_ms()
        old_ms = now_ms - int(1000 * limits.openai_sessions_kept_s)
        found = await self._deps.store.sessions_to_purge(source=OPENAI, before_ms=old_ms)
        left_s = {row.session_id: self._left_s(row, now_ms) for row in found}
        deletions = {(row.session_id, row.purge_at_ms) for row in found}
        self._due_s = {one: due_s for one, due_s in self._due_s.items() if one in deletions}
        rows = sorted(found, key=lambda row: left_s[row.session_id] <= 0)
        failed: list[BaseException] = []
        for first in range(0, len(rows), AT_ONCE):
            # Together, since what the store overwrites afterwards it overwrites once for all of them.
            some = rows[first : first + AT_ONCE]
            steps = [self._see_to(row, is_due=left_s[row.session_id] <= 0) for row in some]
            failed += [error for error in await asyncio.gather(*steps, return_exceptions=True) if error]
        if failed:
            raise failed[0]
        return min([LOOK_S, *(left for left in left_s.values() if left > 0)])

    def _left_s(self, row: SessionRow, now_ms: int) -> float:
        """How long a deletion can be taken back: as long as was said, wherever the clock is set meanwhile."""
        if not row.purge_at_ms:
            return 0.0
        steady_s = self._deps.clock.steady_s()
        said_s = max(0.0, min((row.purge_at_ms - now_ms) / 1000, self._deps.limits.undelete_s))
        return self._due_s.setdefault((row.session_id, row.purge_at_ms), steady_s + said_s) - steady_s

    async def _see_to(self, row: SessionRow, *, is_due: bool) -> None:
        if is_due:
            await self._purge(row)
        elif await self._is_still(row):
            # Whoever deleted it may have crashed before its runs were asked to end.
            await self.stop_runs(row.session_id)

    async def stop_runs(self, session_id: str) -> None:
        """Ask every run of the session to end."""
        store, inbox = self._deps.store, self._deps.inbox
        for status in ("running", "queued"):
            for row in await store.runs(RunQuery(session_id=session_id, status=status, limit=1000)):
                try:
                    await inbox.stop(session_id, row.run_id, cause="deleted")
                except (StoreDamaged, UnreadableEvent, IllegalEvent) as error:
                    # Nobody carries out a run whose log cannot be read, so there is nobody to stop.
                    _log.warning("run %s of a deleted session was not asked to end: %s", row.run_id, error)

    async def purge(self, session_id: str) -> None:
        """Remove every trace; its runs end first, so that none writes to what is gone.

        One that is taken back or written to meanwhile stays.
        """
        row = await self._deps.store.session(session_id)
        if row is not None and row.purge_at_ms:
            await self._purge(row)

    async def _purge(self, known: SessionRow) -> None:
        session_id, store = known.session_id, self._deps.store
        if not await self._is_still(known):
            return
        await self.stop_runs(session_id)
        await self._until_unowned(session_id)
        last_seq = await store.last_seq(session_id)
        if await self._is_still(known):
            await store.purge(session_id, last_seq=last_seq, then=lambda: self._forget(session_id))

    def _forget(self, session_id: str) -> None:
        """At once: the next session may have the same id."""
        self._deps.folds.forget()
        self._deps.supervisor.forget(session_id)
        self._deps.marks.forget(session_id)

    async def _is_still(self, known: SessionRow) -> bool:
        """Whether nobody took the session back, pinned it or said something in it since."""
        row = await self._deps.store.session(known.session_id)
        return row is not None and _wanted(row) == _wanted(known)

    async def _until_unowned(self, session_id: str) -> None:
        clock = self._deps.clock
        give_up_s = clock.monotonic_s() + STOPPED_S
        while self._deps.supervisor.owner(session_id) is not None:
            if clock.monotonic_s() > give_up_s:
                raise RunsGoOn(f"the runs of session {session_id} do not end")
            await clock.sleep_s(0.01)


def _wanted(row: SessionRow) -> tuple[object, ...]:
    return row.epoch, row.purge_at_ms, row.pinned, row.messages
