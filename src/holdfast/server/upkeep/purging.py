"""Background tasks that purge deleted data, and forget what other servers have purged.

A background task that makes old logs smaller by joining the deltas of runs that ended long ago.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast import events as e
from holdfast.catalog import FEATURES
from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.rows import SessionRow
from holdfast.interfaces.index import RunQuery, SessionSize
from holdfast.interfaces.journal import (
    Declined,
    IfRunsOpenBelow,
    IfSessionKnown,
    JournalError,
    StoreDamaged,
)
from holdfast.interfaces.nodes import leads
from holdfast.server.deps import RouteDeps
from holdfast.tools.offload import offload
from holdfast.values import OPENAI, LogEnd

if TYPE_CHECKING:
    from holdfast.interfaces.feature import Upkeep


_log = logging.getLogger(__name__)

LOOK_S = 3600.0  # how often to look for old sessions of plain OpenAI clients and of the relay
AGAIN_S = 60.0  # when to retry a purge that failed
SWEEP_S = 86_400.0  # how often to look for blobs that no event refers to, and to measure sessions
UNNAMED_S = 7 * SWEEP_S  # a tab may stay open for days with an attached file that isn't sent yet
STOPPED_S = 15.0  # how long a purge waits for the session's runs to end
AT_ONCE = 100
GATHER_S = 0.5  # how long to gather sessions that other servers purge


class RunsGoOn(JournalError):
    """The session isn't purged, because one of its runs doesn't end."""


class Purges:
    """Purges what is due; `run` is owned by the application's lifespan."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._wanted = asyncio.Event()
        self._sweep_at_s = 0.0
        self._measure_at_s = 0.0
        self._fitting_from_ms: dict[str, int] = {}  # by source: older sessions exceed its limit in bytes
        self._due_s: dict[tuple[str, int], float] = {}  # when each deletion is final, by the steady clock
        made = [one.part(one.upkeep)(deps) for one in FEATURES.values() if one.upkeep]
        found = (deps.options.upkeep, *made)
        self.upkeeps: Sequence[Upkeep] = tuple(upkeep for upkeep in found if upkeep is not None)

    def look_again(self) -> None:
        """Wake the task: something was deleted."""
        self._wanted.set()

    async def forget_outside(self, session_id: str) -> None:
        """Delete the data of a session outside the store, and end its background processes."""
        for upkeep in self.upkeeps:
            await upkeep.forget(session_id)
        self.look_again()

    async def run(self) -> None:
        """Purge what is due, then sleep until something else is."""
        while True:
            self._wanted.clear()
            works = (
                self._measure_due,
                self._purge_due,
                self._sweep_due,
                *(upkeep.collect for upkeep in self.upkeeps),
            )
            wait_s = min([await self._tried(work) for work in works])
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
                return AGAIN_S  # spooled events are still to come, and may refer to blobs
            # Also after a failure: writers then have days to refer to their blobs.
            self._sweep_at_s = now_s + SWEEP_S
            if await leads(self._deps.store):
                await self._deps.store.sweep_blobs(unnamed_for_s=UNNAMED_S)
        return self._sweep_at_s - now_s

    async def _purge_due(self) -> float:
        """How long until the next is due."""
        limits, now_ms = self._deps.limits, self._deps.clock.now_ms()
        sources = limits.sessions_kept_s.keys() | limits.sessions_max.keys() | self._fitting_from_ms.keys()
        looks: list[Sequence[SessionRow]] = []
        for source in sorted(sources | {OPENAI}):
            from_ms = await self._kept_from_ms(source, now_ms)
            looks.append(await self._deps.store.sessions_to_purge(source=source, before_ms=from_ms))
        found = list({row.session_id: row for rows in looks for row in rows}.values())
        left_s = {row.session_id: self._left_s(row, now_ms) for row in found}
        deletions = {(row.session_id, row.purge_at_ms) for row in found}
        self._due_s = {one: due_s for one, due_s in self._due_s.items() if one in deletions}
        found = await self._unused(found)
        rows = sorted(found, key=lambda row: left_s[row.session_id] <= 0)
        failed: list[BaseException] = []
        for first in range(0, len(rows), AT_ONCE):
            # Together, because the store then overwrites the freed space once for all of them.
            some = rows[first : first + AT_ONCE]
            steps = [self._see_to(row, is_due=left_s[row.session_id] <= 0) for row in some]
            failed += [error for error in await asyncio.gather(*steps, return_exceptions=True) if error]
        if failed:
            raise failed[0]
        return min([LOOK_S, *(left for left in left_s.values() if left > 0)])

    async def _kept_from_ms(self, source: str, now_ms: int) -> int:
        """Sessions of this source that haven't changed since then are to be deleted."""
        limits = self._deps.limits
        kept_s = limits.sessions_kept_s.get(source)
        from_ms = 0 if kept_s is None else now_ms - int(1000 * kept_s)
        if most := limits.sessions_max.get(source):
            from_ms = max(from_ms, await self._deps.store.updated_ms(source=source, nth=most))
        return max(from_ms, self._fitting_from_ms.get(source, 0))

    async def _measure_due(self) -> float:
        """Measure the sessions of sources with a limit in bytes; how long until it is due again.

        It reads as many bytes as the limit allows, so it's rare.
        """
        now_s = self._deps.clock.monotonic_s()
        if now_s >= self._measure_at_s:
            for source, bytes_max in self._deps.limits.sessions_bytes.items():
                self._fitting_from_ms[source] = await self._oldest_fitting_ms(source, bytes_max)
            self._measure_at_s = now_s + SWEEP_S
        return self._measure_at_s - now_s

    async def _oldest_fitting_ms(self, source: str, bytes_max: int) -> int:
        """When the oldest session changed that fits with all newer ones; the newest one always does."""
        last: SessionSize | None = None
        total = 0
        while sizes := await self._deps.store.session_sizes(source, before=last, limit=AT_ONCE):
            for size in sizes:
                total += size.bytes
                if total > bytes_max and last is not None:
                    return last.updated_ms
                last = size
        return 0

    def _left_s(self, row: SessionRow, now_ms: int) -> float:
        """How long the deletion can still be undone, even if the wall clock is changed meanwhile."""
        if not row.purge_at_ms:
            return 0.0
        steady_s = self._deps.clock.steady_s()
        said_s = max(0.0, min((row.purge_at_ms - now_ms) / 1000, self._deps.limits.undelete_s))
        return self._due_s.setdefault((row.session_id, row.purge_at_ms), steady_s + said_s) - steady_s

    async def _see_to(self, row: SessionRow, *, is_due: bool) -> None:
        if is_due:
            deleted = row if row.purge_at_ms else await self._deleted(row)
            if deleted is not None:
                await self._purge(deleted)
        elif await self._is_still(row):
            # The server may have crashed between the deletion and stopping the runs.
            await self.stop_runs(row.session_id)

    async def _unused(self, found: Sequence[SessionRow]) -> Sequence[SessionRow]:
        """Leave out old sessions that a feature writes to again; deleted ones are purged all the same."""
        deleted = [row for row in found if row.purge_at_ms]
        if len(deleted) == len(found):
            return deleted
        in_use = set[str]()
        try:
            for one in FEATURES.values():
                if one.sessions_in_use:
                    ask = await asyncio.to_thread(one.part, one.sessions_in_use)
                    in_use.update(await ask(self._deps))
        except (StoreDamaged, UnreadableEvent, IllegalEvent) as error:
            _log.warning("no old session is deleted, because a log that may name it is damaged: %s", error)
            return deleted
        return [row for row in found if row.purge_at_ms or row.session_id not in in_use]

    async def _deleted(self, old: SessionRow) -> SessionRow | None:
        """Delete an old session unless it is used again or works; its row, or None if it stays.

        The deletion is recorded first, so that its sub-agents go too, even after a crash.
        """
        session_id, now_ms = old.session_id, self._deps.clock.now_ms()
        if not await self._is_still(old) or await self._works(session_id):
            return None
        event = e.SessionDeleted(at_ms=now_ms, purge_at_ms=now_ms)
        is_idle = [IfSessionKnown(), IfRunsOpenBelow(1)]
        result = await self._deps.store.append(session_id, [event], when=is_idle)
        if isinstance(result, Declined):
            return None
        deleted = replace(old, purge_at_ms=now_ms)
        if await self._is_still(deleted):
            return deleted
        # A run began and ended since the row was read.
        await self._deps.store.append(session_id, [e.SessionRestored(at_ms=now_ms)])
        return None

    async def _works(self, session_id: str) -> bool:
        """Whether the session or one of its sub-agents has an open run, or something to deliver."""
        found = await self._deps.store.listed(session_id)
        if found is not None and (found.open_runs or found.row.steers):
            return True
        for child_id in await self.children(session_id):
            if await self._works(child_id):
                return True
        return False

    async def stop_runs(self, session_id: str) -> None:
        """Stop every run of a deleted session, and delete its sub-agents."""
        store, inbox = self._deps.store, self._deps.inbox
        await self._delete_children(session_id)
        for status in ("running", "queued"):
            for row in await store.runs(RunQuery(session_id=session_id, status=status, limit=1000)):
                try:
                    await inbox.stop(session_id, row.run_id, cause="deleted")
                except (StoreDamaged, UnreadableEvent, IllegalEvent) as error:
                    # Nothing executes a run whose log can't be read, so there's nothing to stop.
                    _log.warning("can't stop run %s of a deleted session: %s", row.run_id, error)

    async def _delete_children(self, session_id: str) -> None:
        row = await self._deps.store.session(session_id)
        if row is None or not row.purge_at_ms:
            return
        for child_id in await self.children(session_id):
            deleted = e.SessionDeleted(at_ms=self._deps.clock.now_ms(), purge_at_ms=row.purge_at_ms)
            await self._deps.store.append(child_id, [deleted], when=[IfSessionKnown()])
            await self.stop_runs(child_id)

    async def children(self, session_id: str) -> list[str]:
        """The sessions of its sub-agents; none if its log can't be read."""
        try:
            view = await self._deps.supervisor.view(session_id)
            found: list[str] = []
            for child_id in view.session.children:
                parent = (await self._deps.supervisor.view(child_id)).session.parent
                found += [child_id] if parent is not None and parent.session_id == session_id else []
        except (StoreDamaged, UnreadableEvent, IllegalEvent) as error:
            _log.warning("can't find the sub-agents of session %s: %s", session_id, error)
            return []
        return found

    async def purge(self, session_id: str) -> None:
        """Remove every trace of the session, after its runs have ended.

        A session that is restored or written to meanwhile stays.
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
        end = LogEnd(known.epoch, await store.last_seq(session_id))
        if await self._is_still(known):
            # Before the log: after a crash in between, the purge is retried.
            await self.forget_outside(session_id)
            await store.purge(session_id, only=end, then=lambda: self._forget(session_id))

    def _forget(self, session_id: str) -> None:
        """Forget at once: the next session may have the same id."""
        self._deps.folds.forget()
        self._deps.supervisor.resources.folds.forget(session_id)
        self._deps.marks.forget(session_id)

    async def _is_still(self, known: SessionRow) -> bool:
        """Whether the session is still deleted, unpinned and without new messages."""
        row = await self._deps.store.session(known.session_id)
        return row is not None and _wanted(row) == _wanted(known)

    async def _until_unowned(self, session_id: str) -> None:
        clock = self._deps.clock
        give_up_s = clock.monotonic_s() + STOPPED_S
        supervisor = self._deps.supervisor
        while supervisor.is_busy(session_id) or (await supervisor.place(session_id)).owner:
            if clock.monotonic_s() > give_up_s:
                raise RunsGoOn(f"the runs of session {session_id} do not end")
            await clock.sleep_s(0.01)


def _wanted(row: SessionRow) -> tuple[object, ...]:
    return row.epoch, row.purge_at_ms, row.pinned, row.messages


class ForeignPurges:
    """Data of features is on the server that made it, and folds and read marks in each one's memory."""

    def __init__(self, deps: RouteDeps, purges: Purges) -> None:
        self._deps = deps
        self._purges = purges

    async def run(self) -> None:
        """Forget what is gone now, and then what goes; returns at once if no other server has the store."""
        store = self._deps.store
        if not store.node.name:
            return
        changes = store.changes()
        for upkeep in self._purges.upkeeps:
            await upkeep.drop_purged()
        self._purges.look_again()
        async for ids in changes:
            try:
                for session_id in await self._kept(ids):
                    if await store.session(session_id) is None:
                        await self._forget(session_id)
            except JournalError as error:
                _log.info("what other servers purged is forgotten at the next start: %s", error)
            await self._deps.clock.sleep_s(GATHER_S)

    async def _kept(self, session_ids: Sequence[str]) -> list[str]:
        """Return the sessions that this server has data of but doesn't run."""
        supervisor, upkeeps = self._deps.supervisor, self._purges.upkeeps
        idle = [id_ for id_ in session_ids if not supervisor.is_busy(id_)]

        def kept() -> list[str]:
            return [id_ for id_ in idle if any(upkeep.holds(id_) for upkeep in upkeeps)]

        found = await offload(kept)
        return [id_ for id_ in idle if id_ in found or supervisor.resources.folds.known(id_) is not None]

    async def _forget(self, session_id: str) -> None:
        deps = self._deps
        deps.folds.forget()
        deps.supervisor.resources.folds.forget(session_id)
        deps.marks.forget(session_id)
        await self._purges.forget_outside(session_id)


THINNING_LOOK_S = 6 * 3600.0  # how often to look through all sessions

PAUSE_S = 0.02  # after each step, to leave most of the disk's time to runs


class Thinning:
    """Thins what is due; `run` is owned by the application's lifespan and returns if nothing ever is."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def run(self) -> None:
        """Thin what is due, then sleep until something else may be."""
        clock = self._deps.clock
        while self._deps.limits.deltas_kept_s:
            wait_s = THINNING_LOOK_S
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
