"""Deleted sessions go for good once they cannot be taken back; a task of the application sees to it."""

import asyncio
import logging

from holdfast.interfaces import JournalError, RunQuery
from holdfast.rows import SessionRow
from holdfast.server.means import ServerMeans

_log = logging.getLogger(__name__)

LOOK_S = 3600.0  # how often sessions of plain OpenAI clients are looked through for old ones
AGAIN_S = 60.0  # how soon a purge that failed is tried again
STOPPED_S = 15.0  # how long a purge waits for the session's runs to end
AT_ONCE = 100
OPENAI = "openai"


class RunsGoOn(JournalError):
    """A session is not purged, as runs of it do not end."""


class Purges:
    """Purges what is due; `run` is owned by the application's lifespan."""

    def __init__(self, means: ServerMeans) -> None:
        self._means = means
        self._wanted = asyncio.Event()

    def look_again(self) -> None:
        """Something was deleted."""
        self._wanted.set()

    async def run(self) -> None:
        """Purge what is due, then sleep until something else is."""
        while True:
            self._wanted.clear()
            wait_s = LOOK_S
            try:
                wait_s = await self._purge_due()
            except JournalError as error:
                wait_s = AGAIN_S
                _log.warning("a deleted session was not purged, and will be tried again: %s", error)
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _purge_due(self) -> float:
        """How long until the next is due."""
        limits, now_ms = self._means.limits, self._means.clock.now_ms()
        old_ms = now_ms - int(1000 * limits.openai_sessions_kept_s)
        found = await self._means.store.leftovers(source=OPENAI, before_ms=old_ms)
        due = [row for row in found if row.purge_at_ms <= now_ms]
        for row in found:
            if row.purge_at_ms > now_ms and await self._is_still(row):
                # Whoever deleted it may have crashed before its runs were asked to end.
                await self.stop_runs(row.session_id)
        for first in range(0, len(due), AT_ONCE):
            # Together, since what the store overwrites afterwards it overwrites once for all of them.
            purges = [self._purge(row) for row in due[first : first + AT_ONCE]]
            for error in await asyncio.gather(*purges, return_exceptions=True):
                if error is not None:
                    raise error
        return min(
            [LOOK_S, *((row.purge_at_ms - now_ms) / 1000 for row in found if row.purge_at_ms > now_ms)]
        )

    async def stop_runs(self, session_id: str) -> None:
        """Ask every run of the session to end."""
        for status in ("running", "queued"):
            for row in await self._means.store.runs(
                RunQuery(session_id=session_id, status=status, limit=1000)
            ):
                await self._means.inbox.stop(session_id, row.run_id, cause="deleted")

    async def purge(self, session_id: str) -> None:
        """Remove every trace; its runs end first, so that none writes to what is gone.

        One that is taken back or written to meanwhile stays.
        """
        row = await self._means.store.session(session_id)
        if row is not None and row.purge_at_ms:
            await self._purge(row)

    async def _purge(self, known: SessionRow) -> None:
        session_id, store = known.session_id, self._means.store
        if not await self._is_still(known):
            return
        await self.stop_runs(session_id)
        await self._until_unowned(session_id)
        last_seq = await store.last_seq(session_id)
        if await self._is_still(known):
            await store.purge(session_id, last_seq=last_seq, then=lambda: self._forget(session_id))

    def _forget(self, session_id: str) -> None:
        """At once: the next session may have the same id."""
        self._means.folds.forget()
        self._means.supervisor.forget(session_id)
        self._means.marks.forget(session_id)

    async def _is_still(self, known: SessionRow) -> bool:
        """Whether nobody took the session back, pinned it or said something in it since."""
        row = await self._means.store.session(known.session_id)
        return row is not None and _wanted(row) == _wanted(known)

    async def _until_unowned(self, session_id: str) -> None:
        clock = self._means.clock
        give_up_s = clock.monotonic_s() + STOPPED_S
        while self._means.supervisor.owner(session_id) is not None:
            if clock.monotonic_s() > give_up_s:
                raise RunsGoOn(f"the runs of session {session_id} do not end")
            await clock.sleep_s(0.01)


def _wanted(row: SessionRow) -> tuple[object, ...]:
    return row.epoch, row.purge_at_ms, row.pinned, row.messages
