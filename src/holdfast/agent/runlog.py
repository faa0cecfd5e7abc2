"""The run log: writes one run's events, with at most one append in flight.

Events that arrive while an append is in flight go into the next one. Under light load, every delta is on disk
immediately. Under heavy load, deltas grow, and those of different runs are batched into one commit. Memory is
bounded: past a maximum, `room` makes the caller wait. Appends run from callback to callback; a task is needed
only while the store accepts no writes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from typing_extensions import override

from holdfast.codec import EncodedEvents, encodable
from holdfast.events import (
    AttemptStarted,
    CallEnded,
    CallStarted,
    ContextSet,
    Event,
    ReasoningDelta,
    TextDelta,
    TextDone,
    Usage,
)
from holdfast.folds.activity import SAVING_DELAYED
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    Journal,
    JournalError,
    Replayed,
    Store,
    StoreClosed,
)
from holdfast.interfaces.model import EventSink
from holdfast.journal.retrying_append import PASSING, Result, RetryingAppend
from holdfast.journal.spool import Spool
from holdfast.racing import race
from holdfast.redaction import NO_SECRETS, Redactor, StreamFilter

BEAT_S = 0.008


class DeltaBatcher:
    """Calls a lone writer back immediately, and those that follow within one beat together.

    A single run with a delta every 20 ms never waits; of 64 such runs, about two dozen share each beat.
    """

    def __init__(self, *, beat_s: float = BEAT_S) -> None:
        self.beat_s = beat_s
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Callable[[], None]] = []
        self._last_s = -beat_s

    def join(self, write: Callable[[], None]) -> None:
        """Call `write` together with the others that wait."""
        if not self._waiting:
            due_s = self._last_s + self.beat_s
            if due_s > self._loop.time():
                self._loop.call_at(due_s, self._beat)
            else:
                self._loop.call_soon(self._beat)
        self._waiting.append(write)

    def _beat(self) -> None:
        self._last_s = self._loop.time()
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()


_log = logging.getLogger(__name__)

GATHERED_CHARS_MAX = 1024 * 1024
DELTA_CHARS_MAX = 16 * 1024  # even if every character is escaped, a line of a stream stays under 128 kB
# If the model answers at once, or if the run is over, more follows within a beat; then one commit has both.
_SOON_FOLLOWED = frozenset({ContextSet, CallStarted, AttemptStarted, TextDone, Usage, CallEnded})
NO_WRITER = "nothing writes this run's log any more"


class Unwritable(Exception):
    """An event of the run can't be encoded: a bug in Holdfast, not trouble with the store."""


class RunLog(EventSink):
    """Writes a run's events to its session's log; an async context manager that flushes when it is left."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        run: tuple[str, str],
        fence: Fence,
        secrets: Redactor = NO_SECRETS,
        spool: Spool | None = None,
    ) -> None:
        self.session_id, self.run_id = run
        self.live: Callable[[], str] | None = None
        self.journal: Journal = store
        self._appender = RetryingAppend(store, clock, run=run, fence=fence, spool=spool)
        self._clock = clock
        self.fence = fence
        self.secrets = secrets
        self._filter = StreamFilter(secrets)
        self.resumed = False
        self._segment = 0
        self._events = EncodedEvents()
        self._pieces: list[str] = []
        self._piece_of: tuple[type[TextDelta | ReasoningDelta], int] = (TextDelta, 0)
        self._gathered_chars = 0
        self._waiting_chars = 0  # of these, what was taken and waits for a store that accepts no writes
        self._loop = asyncio.get_running_loop()
        self.batcher = DeltaBatcher()  # the supervisor replaces it with one that all runs share
        self._is_writing = False
        self._is_due = False  # something must be written at once, without waiting for the batcher
        self._is_text_due = False  # the first piece of a segment, and nothing else, must be
        self._soon: asyncio.TimerHandle | None = None
        self._is_left = False
        self._is_ending = False  # gathered events wait for the last one
        self._wanted = asyncio.Event()  # there is something that was not taken yet
        self._written = asyncio.Event()
        self._error: JournalError | Unwritable | None = None
        self._waiting_out: asyncio.Task[None] | None = None
        self._to_call: list[Callable[[], None]] = []  # once what is gathered is on disk
        self._to_call_next: list[Callable[[], None]] = []  # once the append in flight is on disk

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._error is None and isinstance(error, asyncio.CancelledError):
                await self._flush_or_late()
            elif self._error is None:
                await self.flush()
        finally:
            self._is_left = True
            if self._waiting_out is not None:
                self._waiting_out.cancel()
                await asyncio.wait([self._waiting_out])

    @property
    def last_seq(self) -> int:
        """As far as this run knows its log."""
        return self._appender.last_seq

    def continue_after(self, seq: int, *, segment: int) -> None:
        """Continue a log that is known up to this seq, and the numbering of its segments."""
        self._appender.last_seq = seq
        self._segment = segment

    def live_line(self) -> str:
        """The status line shown while nothing arrives; empty if there is nothing to show."""
        if self._appender.trouble is not None:
            return f"{SAVING_DELAYED}: {self._appender.trouble}"
        return self.live() if self.live is not None else ""

    @override
    def now_ms(self) -> int:
        return self._clock.now_ms()

    @override
    def next_segment(self) -> int:
        self._segment += 1
        return self._segment

    def clean(self, event: Event) -> Event:
        """The event as it is stored: without secrets, and encodable as JSON."""
        return self.secrets.stored(event)[0]

    @override
    def emit(self, event: Event) -> None:
        self._end_delta()
        self._events.add(*self.secrets.stored(event))
        if type(event) in _SOON_FOLLOWED:
            if self._is_text_due and type(event) is TextDone:
                # The whole text came at once, so the end of the answer may be here already.
                self._is_due = self._is_text_due = False
                self._wanted.clear()
            self._want_soon()
        else:
            self._is_text_due = False
            self._want_now()

    @override
    def say(self, segment: int, text: str) -> None:
        self._gather(TextDelta, segment, text)

    @override
    def think(self, segment: int, text: str) -> None:
        self._gather(ReasoningDelta, segment, text)

    def _gather(self, kind: type[TextDelta | ReasoningDelta], segment: int, text: str) -> None:
        if self._piece_of != (kind, segment):
            # The first piece of a segment doesn't wait for others.
            self._end_delta()
            self._piece_of = (kind, segment)
            self._is_text_due = not self._is_due
            self._want_now()
        self._pieces.append(text)
        self._gathered_chars += len(text)
        if not self._wanted.is_set():
            self._wanted.set()
            if not self._is_writing:
                self.batcher.join(self._write)

    def _want_now(self) -> None:
        self._wanted.set()
        if not self._is_due:
            self._is_due = True
            if not self._is_writing:
                # After this step of the loop, because the caller may add more in the same step.
                self._loop.call_soon(self._write_due)

    def _want_soon(self) -> None:
        """Write with whatever is added next, or after a beat."""
        if self._soon is None:
            self._soon = self._loop.call_later(self.batcher.beat_s, self._want_now)

    def _close_delta(self) -> None:
        """Make a delta of what was gathered, except for text that may be the start of a secret."""
        if self._pieces:
            text = self._filter.feed("".join(self._pieces))
            self._pieces.clear()
            self._add_delta(text)

    def _end_delta(self) -> None:
        if self._pieces:
            self._close_delta()
        if self._filter.held:
            self._add_delta(self._filter.flush())

    def _add_delta(self, text: str) -> None:
        kind, segment = self._piece_of
        for at in range(0, len(text), DELTA_CHARS_MAX):
            piece = text[at : at + DELTA_CHARS_MAX]
            delta = kind(at_ms=self.now_ms(), run_id=self.run_id, segment=segment, text=piece)
            self._events.add(*encodable(delta))

    @property
    @override
    def full(self) -> bool:
        return self._gathered_chars > GATHERED_CHARS_MAX or self._error is not None

    @override
    async def room(self) -> None:
        while self._gathered_chars > GATHERED_CHARS_MAX and self._error is None:
            self._written.clear()
            await self._written.wait()
        self._raise()

    @property
    def is_flushed(self) -> bool:
        """Whether all events are on disk."""
        return not (self._is_writing or self._wanted.is_set() or self._events or self._pieces)

    def when_saved(self, call: Callable[[], None]) -> None:
        """Call back once everything that was added so far is on disk; never if the store doesn't take it."""
        if self.is_flushed and not self._filter.held:
            call()
        else:
            self._to_call.append(call)

    @override
    async def flush(self) -> None:
        while not self.is_flushed and self._error is None:
            if self._pieces or self._events:
                self._want_now()
            self._written.clear()
            await self._written.wait()
        self._raise()

    async def _flush_or_late(self) -> None:
        """Don't hold up a shutdown for the store: spooled events are appended after the next start."""
        settled = asyncio.ensure_future(self.flush())
        late = asyncio.ensure_future(self._appender.is_late.wait())
        await race(settled, late)
        if not settled.cancelled():
            settled.result()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _write_due(self) -> None:
        if self._is_due:
            self._write()

    def _write(self) -> None:
        """Append what has been gathered, unless an append is in flight."""
        if self._is_writing or self._is_left or self._is_ending or self._error is not None:
            return
        self._wanted.clear()
        self._is_due = self._is_text_due = False
        try:
            events = self._take()
            if not events:
                self._call_back()
                self._written.set()
                return
            self._is_writing = True
            self._gathered_chars = 0
            appending = self.journal.append_run(self.session_id, events, fence=self.fence)
        except Exception as error:  # noqa: BLE001  # not awaited, but others wait for its effect
            self._finish_append(error)
        else:
            if not isinstance(appending, asyncio.Future):
                appending = asyncio.ensure_future(appending)
            appending.add_done_callback(partial(self._appended, events))

    def _appended(self, events: Sequence[Event], appending: asyncio.Future[Result]) -> None:
        error = StoreClosed(NO_WRITER) if appending.cancelled() else appending.exception()
        if isinstance(error, PASSING) and not self._is_left:
            waiting = self._wait_out(error, events)
            self._waiting_out = self._loop.create_task(waiting, name=f"wait out {self.run_id}")
            return
        if error is None:
            result = appending.result()
            assert isinstance(result, Appended), "an append without a condition or a key is never declined"
            self._appender.last_seq = result.last_seq
        self._finish_append(error)

    async def _wait_out(self, trouble: JournalError, events: Sequence[Event]) -> None:
        """Retry these events, and those that are added meanwhile, until the store accepts them."""
        error: BaseException | None = StoreClosed(NO_WRITER)
        try:
            await self._note_last_seq(
                await self._appender.wait_out(trouble, events, meanwhile=self._said_meanwhile)
            )
            error = None
        except Exception as lasting:  # noqa: BLE001  # raised to the tasks that wait for the events
            error = lasting
        finally:
            self._gathered_chars -= self._waiting_chars
            self._waiting_chars = 0
            self._finish_append(error)

    def _finish_append(self, error: BaseException | None) -> None:
        """Finish an append and wake everyone who waits for it."""
        self._is_writing = False
        if isinstance(error, JournalError):
            self._error = error
        elif isinstance(error, Exception):
            _log.error("events of run %s can't be encoded", self.run_id, exc_info=error)
            self._error = Unwritable(f"{type(error).__name__}: {error}")
        elif error is not None:
            self._error = StoreClosed(f"{NO_WRITER}: {error!r}")
        else:
            self._call_back()
            if self._is_due:
                self._write()
            elif self._wanted.is_set():
                self.batcher.join(self._write)
        self._written.set()

    def _call_back(self) -> None:
        """Tell those who wait for what is on disk now."""
        due, self._to_call_next = self._to_call_next, []
        for call in due:
            call()

    def drop_unwritable(self) -> None:
        """Drop the event that can't be encoded, and all after it, which may depend on it."""
        if isinstance(self._error, Unwritable):
            self._events = EncodedEvents()
            self._pieces.clear()
            self._filter.flush()
            self._gathered_chars = 0
            self._is_due = False
            self._wanted.clear()
            self._error = None

    def _take(self) -> Sequence[Event]:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._close_delta()
        events, self._events = self._events, EncodedEvents()
        if not self._filter.held:
            self._to_call_next += self._to_call
            self._to_call = []
        return events

    async def _said_meanwhile(self) -> Sequence[Event]:
        """The events added while earlier ones wait for the store; they still count as gathered."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._waiting_chars = self._gathered_chars
            if events := self._take():
                return events

    async def append(
        self, events: Sequence[Event], *, when: Sequence[Condition] = ()
    ) -> Appended | Declined | Replayed:
        """Append now, ahead of what is gathered; retries while the store has transient trouble."""
        clean = EncodedEvents()
        for event in events:
            clean.add(*self.secrets.stored(event))
        return await self._note_last_seq(await self._appender.append(clean, when=when))

    async def end(self, event: Event, *, when: Sequence[Condition] = ()) -> Appended | Declined | Replayed:
        """Append what is gathered and the run's last event, all or nothing; raises like `settled`."""
        self._is_ending = True
        try:
            while self._is_writing and self._error is None:
                self._written.clear()
                await self._written.wait()
        finally:
            self._is_ending = self._is_due = False
        self._raise()
        self._is_writing = True
        self._wanted.clear()
        try:
            self._end_delta()
            self._events.add(*self.secrets.stored(event))
            result = await self._appender.append(self._take(), when=when)
        except (JournalError, asyncio.CancelledError):
            self._is_writing = False
            raise
        except Exception as error:
            self._finish_append(error)
            raise Unwritable(str(error)) from error
        self._finish_append(None)
        return await self._note_last_seq(result)

    async def _note_last_seq(self, result: Appended | Declined | Replayed) -> Appended | Declined | Replayed:
        if isinstance(result, Replayed):
            self._appender.last_seq = await self.journal.last_seq(self.session_id)
        return result
