"""Old logs are made small: deltas of runs that are long over are joined, by a task of the application."""

import logging
from contextlib import aclosing

from holdfast.codec import UnreadableEvent
from holdfast.interfaces.journal import JournalError, StoreDamaged
from holdfast.server.deps import RouteDeps

_log = logging.getLogger(__name__)

LOOK_S = 6 * 3600.0  # how often sessions are looked through
AGAIN_S = 60.0  # how soon a pass that failed is tried again
PAUSE_S = 0.02  # after each step, so that runs have the disk for themselves most of the time
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
                _log.warning("old sessions were not made smaller, and will be tried again: %s", error)
            await clock.sleep_s(wait_s)

    async def thin_due(self) -> int:
        """One pass over all sessions; how many events went."""
        store, clock = self._deps.store, self._deps.clock
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
            _log.info("%d pieces of old answers were joined to those before them", gone)
        return gone

    async def _thin(self, session_id: str, before_ms: int) -> int:
        gone = 0
        try:
            async with aclosing(self._deps.store.thin(session_id, before_ms=before_ms)) as steps:
                async for count in steps:
                    gone += count
                    await self._deps.clock.sleep_s(PAUSE_S)
        except (StoreDamaged, UnreadableEvent) as error:
            _log.warning("session %s is left as it is: %s", session_id, error)
        return gone
