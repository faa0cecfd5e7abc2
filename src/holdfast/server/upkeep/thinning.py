"""A background task that makes old logs smaller by joining the deltas of runs that ended long ago."""

import logging
from contextlib import aclosing

from holdfast.codec import UnreadableEvent
from holdfast.interfaces.journal import JournalError, StoreDamaged
from holdfast.interfaces.nodes import leads
from holdfast.server.deps import RouteDeps

_log = logging.getLogger(__name__)

LOOK_S = 6 * 3600.0  # how often to look through all sessions
AGAIN_S = 60.0  # when to retry a pass that failed
PAUSE_S = 0.02  # after each step, to leave most of the disk's time to runs
AT_ONCE = 100


class Thinning:
    """Thins what is due; `run` is owned by the application's lifespan and returns if nothing ever is."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def run(self) -> None:
        """Thin what is due, then sleep until something else may be."""
        clock = self._deps.clock
        while self._deps.limits.deltas_kept_s:
            wait_s = LOOK_S
            try:
                await self.thin_due()
            except JournalError as error:
                wait_s = AGAIN_S
                _log.warning("old sessions weren't compacted; Holdfast will try again: %s", error)
            await clock.sleep_s(wait_s)

    async def thin_due(self) -> int:
        """One pass over all sessions, at one node for all; how many events went."""
        store, clock = self._deps.store, self._deps.clock
        if not await leads(store):
            return 0
        before_ms = clock.now_ms() - int(1000 * self._deps.limits.deltas_kept_s)
        gone = 0
        seen: set[str] = set()
        while True:
            found = await store.unthinned(before_ms=before_ms, limit=AT_ONCE)
            if seen.issuperset(found):
                break
            for session_id in found:
                gone += await self._thin(session_id, before_ms)
            seen.update(found)
        if gone:
            _log.info("%d pieces of old answers were joined", gone)
        return gone

    async def _thin(self, session_id: str, before_ms: int) -> int:
        gone = 0
        try:
            async with aclosing(self._deps.store.thin(session_id, before_ms=before_ms)) as steps:
                async for count in steps:
                    gone += count
                    await self._deps.clock.sleep_s(PAUSE_S)
        except (StoreDamaged, UnreadableEvent) as error:
            _log.warning("session %s isn't compacted: %s", session_id, error)
        return gone
