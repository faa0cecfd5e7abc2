"""Late journals: while the store takes no writes, a run's events go to the spool, and the run waits.

When the store takes writes again they land in their place, each once. What an earlier process left in its
spool is absorbed at the next start, before any run goes on.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from holdfast import interfaces as seams
from holdfast.codec import decode
from holdfast.events import Event, OutputRecovered
from holdfast.journal.spool import Spool, Spooled, read_spool, spool_files

_log = logging.getLogger(__name__)

# What passes: a lock is let go, room is made, a disk comes back.
PASSING = (
    seams.StoreLocked,
    seams.StoreFull,
    seams.StoreFailed,
    seams.StoreReadOnly,
    seams.StoreOverloaded,
)
PAUSE_FIRST_S = 0.1
PAUSE_LAST_S = 2.0
KEPT_MS = 10 * 365 * 86_400_000  # a spool may lie on a shelf for long


class LateWrites:
    """Appends for runs, however long the store needs; without a spool only memory keeps what waits."""

    def __init__(self, journal: seams.Journal, clock: seams.Clock, *, spool: Spool | None = None) -> None:
        self._journal = journal
        self._clock = clock
        self._spool = spool

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        run_id: str,
        fence: seams.Fence,
        when: Sequence[seams.Condition] = (),
    ) -> seams.Appended | seams.Declined | seams.Replayed:
        """Like Journal.append_run, but trouble that passes is waited for; the events are safe meanwhile."""
        try:
            return await self._journal.append_run(session_id, events, fence=fence, when=when)
        except PASSING as trouble:
            _log.warning("saving is delayed for run %s: %s", run_id, trouble)
        spooled = await self._spooled(session_id, run_id, events)
        once = None if spooled is None else once_for(spooled, self._clock.now_ms())
        pause_s = PAUSE_FIRST_S
        while True:
            await self._clock.sleep_s(pause_s)
            try:
                result = await self._journal.append_run(session_id, events, fence=fence, when=when, once=once)
            except PASSING:
                pause_s = min(2 * pause_s, PAUSE_LAST_S)
                continue
            _log.info("saving goes on for run %s", run_id)
            if spooled is not None and self._spool is not None:
                await self._spool.absorbed(spooled)
            return result

    async def _spooled(self, session_id: str, run_id: str, events: Sequence[Event]) -> Spooled | None:
        if self._spool is None:
            return None
        try:
            return await self._spool.put(session_id, run_id, events)
        except OSError as error:
            _log.warning(
                "the spool takes nothing either, so run %s keeps its output in memory: %s", run_id, error
            )
            return None


def once_for(spooled: Spooled, now_ms: int) -> seams.Once:
    """The key by which a spooled record lands once."""
    return seams.Once(spooled.key, "", b"", now_ms + KEPT_MS)


async def absorb(store: seams.Store, folder: Path, *, now_ms: int) -> int:
    """Put what earlier processes left in their spools where it belongs; how many records there were."""
    count = 0
    for path in await asyncio.to_thread(spool_files, folder):
        for spooled in await asyncio.to_thread(_records, path):
            await _absorb(store, spooled, now_ms=now_ms)
            count += 1
        await asyncio.to_thread(path.unlink, missing_ok=True)
    return count


def _records(path: Path) -> list[Spooled]:
    return list(read_spool(path))


async def _absorb(store: seams.Store, spooled: Spooled, *, now_ms: int) -> None:
    events = [decode(bytes(body), where=f"{spooled.key} of run {spooled.run_id}") for body in spooled.events]
    fence = await store.claim(spooled.session_id)
    open_run = seams.IfRunOpen(spooled.run_id)
    once = once_for(spooled, now_ms)
    try:
        result = await store.append_run(spooled.session_id, events, fence=fence, when=[open_run], once=once)
        if isinstance(result, seams.Declined):
            # The run has ended elsewhere meanwhile: its output is shown all the same, above its ending.
            late = OutputRecovered(at_ms=now_ms, run_id=spooled.run_id, events=spooled.events)
            await store.append(spooled.session_id, [late], when=[seams.IfSessionKnown()], once=once)
    except seams.UnknownSession:
        _log.info("the spool held output of session %s, which was purged", spooled.session_id)
