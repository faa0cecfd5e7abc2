"""Appends that retry: while the store accepts no writes, a run's events go to the spool and the run waits.

When the store accepts writes again, each event is appended once, in order. If it isn't known whether an
append was written, the log is searched for its events before they are appended again. Records that an earlier
process left in its spool are moved into the store as soon as it accepts writes, before any run is resumed.
If another node has continued such a run, its log goes on without them: they are added once the run has ended.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.codec import UnreadableEvent, bodies_of, decode
from holdfast.events import (
    ApprovalWithdrawn,
    ClientToolsWithdrawn,
    Event,
    OutputRecovered,
    QuestionWithdrawn,
    RunResumed,
)
from holdfast.folds.rows import ask_of
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import (
    TRANSIENT,
    Appended,
    Condition,
    Declined,
    Fence,
    FenceLost,
    HomedElsewhere,
    IdempotencyKey,
    IfAskOpen,
    IfRunOpen,
    IfSessionKnown,
    JournalError,
    OutcomeUnknown,
    OwnedElsewhere,
    Record,
    Replayed,
    Store,
    StoreUnreachable,
    UnknownSession,
)
from holdfast.journal.append_rules import timeless
from holdfast.journal.spool import Spool, Spooled, put_aside, read_spool, spool_files

_log = logging.getLogger(__name__)

PAUSE_FIRST_S = 0.1
PAUSE_LAST_S = 2.0
LOOK_S = 0.05  # between looks whether a store that said it was in trouble has recovered
WITHDRAWN = (ApprovalWithdrawn, QuestionWithdrawn, ClientToolsWithdrawn)
KEPT_MS = 10 * 365 * 86_400_000  # a spool can stay around for years before it's absorbed

# Trouble that a run waits out, whether or not its events were written.
PASSING = (*TRANSIENT, OutcomeUnknown)
# Trouble of a database somewhere else, which comes back by itself. A broken disk doesn't.
AWAY = (StoreUnreachable, OutcomeUnknown)

Result: TypeAlias = Appended | Declined | Replayed
Meanwhile: TypeAlias = Callable[[], Awaitable[Sequence[Event]]]


class _Batch(NamedTuple):
    """Events that wait for the store, and their spool record if they were spooled.

    With `unknown_after`, an append without a key may have written them behind this seq.
    """

    events: Sequence[Event]
    when: Sequence[Condition] = ()
    spooled: Spooled | None = None
    unknown_after: int | None = None


async def _silence() -> Sequence[Event]:
    """Wait forever, for a run that adds nothing meanwhile."""
    return await asyncio.get_running_loop().create_future()


class RetryingAppend:
    """Appends for one run and retries until it works; without a spool, waiting events are only in memory.

    `last_seq` is as far as the log is known: nothing that is still to be appended can be in it up to there.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        run: tuple[str, str],
        fence: Fence,
        spool: Spool | None = None,
        last_seq: int = 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._session_id, self._run_id = run
        self._fence = fence
        self._spool = spool
        self.last_seq = last_seq
        self.trouble: JournalError | None = None
        self.is_late = asyncio.Event()  # set while events wait for the store

    async def append(
        self,
        events: Sequence[Event],
        *,
        when: Sequence[Condition] = (),
        meanwhile: Meanwhile = _silence,
    ) -> Result:
        """Append like Journal.append_run, but wait out temporary trouble while the events are kept safe.

        `meanwhile` waits for more events of the run. They are kept too, and appended after these. If
        `meanwhile` is cancelled, it must not have taken any events. The result is that of the last append.
        """
        try:
            return await self._put(_Batch(events, when))
        except PASSING as trouble:
            delayed_by = trouble
        return await self.wait_out(delayed_by, events, when=when, meanwhile=meanwhile)

    async def wait_out(
        self,
        trouble: JournalError,
        events: Sequence[Event],
        *,
        when: Sequence[Condition] = (),
        meanwhile: Meanwhile = _silence,
    ) -> Result:
        """Like `append`, for events that the store has just refused because of this trouble."""
        _log.warning("saving is delayed for run %s: %s", self._run_id, trouble)
        self.trouble = trouble
        unknown_after = self.last_seq if isinstance(trouble, OutcomeUnknown) else None
        try:
            kept = await self._kept(_Batch(events, when, unknown_after=unknown_after))
            self.is_late.set()
            return await self._put_late(kept, meanwhile)
        finally:
            self.trouble = None
            self.is_late.clear()

    async def _put_late(self, first: _Batch, meanwhile: Meanwhile) -> Result:
        waiting = deque([first])
        pause_s = PAUSE_FIRST_S
        while True:
            await self._gather(waiting, meanwhile, pause_s=pause_s)
            try:
                while True:
                    result = await self._put(waiting[0])
                    await self._landed(waiting.popleft())
                    if not waiting:
                        _log.info("saving works again for run %s", self._run_id)
                        return result
            except PASSING as trouble:
                self.trouble = trouble
                if isinstance(trouble, OutcomeUnknown) and waiting[0].unknown_after is None:
                    waiting[0] = waiting[0]._replace(unknown_after=self.last_seq)
                pause_s = min(2 * pause_s, PAUSE_LAST_S)

    async def _gather(self, waiting: deque[_Batch], meanwhile: Meanwhile, *, pause_s: float) -> None:
        """Collect what the run adds until it is time to try again: the store recovers, or a pause ends."""
        was_troubled = self._store.trouble is not None
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + pause_s
        while (left_s := until_s - now_s()) > 0 and not (was_troubled and self._store.trouble is None):
            try:
                async with asyncio.timeout(min(left_s, LOOK_S) if was_troubled else left_s):
                    events = await meanwhile()
            except TimeoutError:
                continue
            # After events that are only in memory, nothing is spooled: a crash must not leave a hole in the
            # log.
            is_behind = waiting[-1].spooled is None
            # Outside the timeout: events taken from the run must not be dropped half-way.
            batch = _Batch(events)
            waiting.append(batch if is_behind else await self._kept(batch))

    async def _put(self, batch: _Batch) -> Result:
        result: Result | None = None
        if batch.unknown_after is not None:
            bodies = bodies_of(batch.events)
            result = await _search(self._store, self._session_id, bodies, after=batch.unknown_after)
        if result is None:
            spooled = batch.spooled
            result = await self._store.append_run(
                self._session_id,
                batch.events,
                fence=self._fence,
                when=batch.when,
                idempotency_key=None if spooled is None else _key_of(spooled, self._clock.now_ms()),
            )
        if isinstance(result, Appended):
            self.last_seq = result.last_seq
        return result

    async def _kept(self, batch: _Batch) -> _Batch:
        if self._spool is None:
            return batch
        try:
            spooled = await self._spool.put(
                self._session_id,
                self._run_id,
                batch.events,
                unknown_after=batch.unknown_after,
                after=self.last_seq,
            )
        except OSError as error:
            _log.warning(
                "the spool can't be written either, so run %s keeps its output in memory: %s",
                self._run_id,
                error,
            )
            return batch
        return batch._replace(spooled=spooled)

    async def _landed(self, batch: _Batch) -> None:
        if batch.spooled is not None and self._spool is not None:
            await self._spool.absorbed(batch.spooled)


def _key_of(spooled: Spooled, now_ms: int) -> IdempotencyKey:
    """The idempotency key of a spooled record."""
    return IdempotencyKey(spooled.key, "", b"", now_ms + KEPT_MS)


async def _search(store: Store, session_id: str, bodies: list[bytes], *, after: int) -> Appended | None:
    """Where the log has these events, one behind the other, after this seq; None if it doesn't."""
    if store.trouble is not None:
        # What was under way may still be written, so not finding it would prove nothing.
        raise StoreUnreachable(str(store.trouble))
    wanted = [timeless(body) for body in bodies]
    newest = deque[Record](maxlen=len(bodies))
    while records := await store.read(session_id, after=after):
        for record in records:
            newest.append(record)
            if [timeless(one.body) for one in newest] == wanted:
                return Appended(newest[0].seq, record.seq)
        after = records[-1].seq
    return None


async def ready(store: Store, clock: Clock, *, spool: Spool | None) -> None:
    """Wait until the store accepts writes and has everything that earlier processes spooled."""
    await store.writable()
    pause_s = PAUSE_FIRST_S
    while spool is not None:
        try:
            count = await absorb(store, spool.folder, now_ms=clock.now_ms())
        except PASSING as trouble:
            _log.warning("the spool can't be moved into the journal yet: %s", trouble)
            await clock.sleep_s(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LAST_S)
        else:
            if count:
                _log.info("moved %d records from the spool into the journal", count)
            return


async def once_readable(
    work: Callable[[], Awaitable[None]],
    clock: Clock,
    *,
    waits_out: tuple[type[JournalError], ...] = PASSING,
) -> None:
    """Do a part of a start that can be done again; a store that goes away meanwhile is waited for."""
    pause_s = PAUSE_FIRST_S
    while True:
        try:
            await work()
        except waits_out as trouble:
            _log.warning("the start waits for the store: %s", trouble)
            await clock.sleep_s(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LAST_S)
        else:
            return


async def absorb(store: Store, folder: Path, *, now_ms: int) -> int:
    """Move what earlier processes spooled into the store; returns the number of records.

    A spool stays where it is as long as it has output of a run that another node works on.
    """
    count = 0
    for path in await asyncio.to_thread(spool_files, folder):
        try:
            records = await asyncio.to_thread(_records, path)
            absorbing = _Absorbing(store, records, now_ms)
            absorbed = [await absorbing.absorb(spooled) for spooled in records]
            count += sum(absorbed)
        except (UnreadableEvent, msgspec.MsgspecError) as error:
            # Nothing in it was ever shown, and one bad file must not keep runs from resuming.
            aside = await asyncio.to_thread(put_aside, path)
            _log.error("a spool file can't be read to its end, so the rest is kept in %s: %s", aside, error)
        else:
            if all(absorbed):
                await asyncio.to_thread(path.unlink, missing_ok=True)
            else:
                _log.info("another node works on runs whose output is in %s, so it stays there", path)
    return count


def _records(path: Path) -> list[Spooled]:
    return list(read_spool(path))


class _Absorbing:
    """Moves the records of one spool into the store."""

    def __init__(self, store: Store, records: Sequence[Spooled], now_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._bodies = {timeless(bytes(body)) for spooled in records for body in spooled.events}
        self._taken_over: dict[str, bool] = {}  # run -> whether another node has continued it

    async def absorb(self, spooled: Spooled) -> bool:
        """Absorb one record; False if it has to wait until another node has ended the run."""
        store = self._store
        bodies = [bytes(body) for body in spooled.events]
        events = [decode(body, where=f"{spooled.key} of run {spooled.run_id}") for body in bodies]
        if spooled.unknown_after is not None and await _search(
            store, spooled.session_id, bodies, after=spooled.unknown_after
        ):
            return True
        try:
            if not await self._is_taken_over(spooled) and await self._append(spooled, events):
                return True
            return await self._recover(spooled)
        except UnknownSession:
            _log.info("dropped spooled output of session %s, which was purged", spooled.session_id)
            return True

    async def _is_taken_over(self, spooled: Spooled) -> bool:
        """Whether the log has a resumption of the run that isn't in this spool itself."""
        run_id = spooled.run_id
        if spooled.after is None or run_id in self._taken_over:
            return self._taken_over.get(run_id, False)
        after, found = spooled.after, False
        while records := await self._store.read(spooled.session_id, after=after):
            after = records[-1].seq
            found = found or any(
                isinstance(one.event, RunResumed)
                and one.event.run_id == run_id
                and timeless(one.body) not in self._bodies
                for one in records
            )
        self._taken_over[run_id] = found
        return found

    async def _append(self, spooled: Spooled, events: Sequence[Event]) -> bool:
        """Append the events as the run's own; False if the run has ended, or belongs to another node."""
        # A person may have answered first; then there is nothing left to withdraw.
        asks = [IfAskOpen(ask_of(event)) for event in events if isinstance(event, WITHDRAWN)]
        open_run = IfRunOpen(spooled.run_id)
        try:
            fence = await self._store.claim(spooled.session_id)
            result = await self._store.append_run(
                spooled.session_id,
                events,
                fence=fence,
                when=[open_run, *asks],
                idempotency_key=_key_of(spooled, self._now_ms),
            )
            await self._store.release(spooled.session_id, fence)
        except (OwnedElsewhere, HomedElsewhere, FenceLost):
            return False
        return not (isinstance(result, Declined) and result.condition == open_run)

    async def _recover(self, spooled: Spooled) -> bool:
        """Show the output of a run that has ended meanwhile, above its ending; False if it is open."""
        run = await self._store.run(spooled.run_id)
        if run is not None and run.status != "ended":
            return False
        late = OutputRecovered(at_ms=self._now_ms, run_id=spooled.run_id, events=spooled.events)
        await self._store.append(
            spooled.session_id,
            [late],
            when=[IfSessionKnown()],
            idempotency_key=_key_of(spooled, self._now_ms),
        )
        return True
