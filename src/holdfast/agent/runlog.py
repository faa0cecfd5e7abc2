"""The voice of one run: at most one append in flight, and what is said meanwhile goes into the next.

Under light load every delta is on disk at once; under heavy load deltas grow by themselves. There is no
timer and no queue that grows without end: past a limit `room` makes the speaker wait.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from holdfast.events import Event, ReasoningDelta, TextDelta
from holdfast.interfaces import (
    Appended,
    Clock,
    Condition,
    Declined,
    Fence,
    Journal,
    JournalError,
    Replayed,
    StoreClosed,
)
from holdfast.journal.late import LateWrites
from holdfast.journal.spool import Spool
from holdfast.secrets_out import NO_SECRETS, Secrets, StreamFilter

GATHERED_CHARS_MAX = 1024 * 1024
DELTA_CHARS_MAX = 16 * 1024  # even if each were escaped, a line of a stream stays under 128 kB


class RunLog:
    """Puts a run's events on its session's log; an async context manager that owns the writing task."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        run: tuple[str, str],
        fence: Fence,
        secrets: Secrets = NO_SECRETS,
        spool: Spool | None = None,
    ) -> None:
        self.session_id, self.run_id = run
        self.live: Callable[[], str] | None = None
        self.last_seq = 0
        self._journal = journal
        self._late = LateWrites(journal, clock, run=run, fence=fence, spool=spool)
        self._clock = clock
        self.fence = fence
        self.secrets = secrets
        self._filter = StreamFilter(secrets)
        self._segment = 0
        self._events: list[Event] = []
        self._pieces: list[str] = []
        self._piece_of: tuple[type[TextDelta | ReasoningDelta], int] = (TextDelta, 0)
        self._gathered_chars = 0
        self._waiting_chars = 0  # of these, what was taken and waits for a store that takes no writes
        self._is_writing = False
        self._wanted = asyncio.Event()
        self._written = asyncio.Event()
        self._error: JournalError | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write(), name=f"write {self.run_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        try:
            if self._error is None and isinstance(error, asyncio.CancelledError):
                await self._settled_or_late()
            elif self._error is None:
                await self.settled()
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])

    def begin_segments_after(self, segment: int) -> None:
        """Go on numbering where an earlier life of the run ended."""
        self._segment = segment

    def live_line(self) -> str:
        """What people read while nothing comes; empty if there is nothing to say."""
        if self._late.trouble is not None:
            return f"saving is delayed: {self._late.trouble}"
        return self.live() if self.live is not None else ""

    def now_ms(self) -> int:
        """See Voice."""
        return self._clock.now_ms()

    def next_segment(self) -> int:
        """See Voice."""
        self._segment += 1
        return self._segment

    def emit(self, event: Event) -> None:
        """See Voice."""
        self._end_delta()
        self._events.append(self.secrets.out_of(event))
        self._wanted.set()

    def say(self, segment: int, text: str) -> None:
        """See Voice."""
        self._gather(TextDelta, segment, text)

    def think(self, segment: int, text: str) -> None:
        """See Voice."""
        self._gather(ReasoningDelta, segment, text)

    def _gather(self, kind: type[TextDelta | ReasoningDelta], segment: int, text: str) -> None:
        if self._piece_of != (kind, segment):
            self._end_delta()
            self._piece_of = (kind, segment)
        self._pieces.append(text)
        self._gathered_chars += len(text)
        self._wanted.set()

    def _close_delta(self) -> None:
        """Make a delta of what was gathered; what may be the beginning of a secret waits for the next."""
        if self._pieces:
            text = self._filter.feed("".join(self._pieces))
            self._pieces.clear()
            self._add_delta(text)

    def _end_delta(self) -> None:
        self._close_delta()
        self._add_delta(self._filter.flush())

    def _add_delta(self, text: str) -> None:
        kind, segment = self._piece_of
        for at in range(0, len(text), DELTA_CHARS_MAX):
            piece = text[at : at + DELTA_CHARS_MAX]
            self._events.append(kind(at_ms=self.now_ms(), run_id=self.run_id, segment=segment, text=piece))

    @property
    def full(self) -> bool:
        """See Voice."""
        return self._gathered_chars > GATHERED_CHARS_MAX or self._error is not None

    async def room(self) -> None:
        """See Voice."""
        while self._gathered_chars > GATHERED_CHARS_MAX and self._error is None:
            self._written.clear()
            await self._written.wait()
        self._raise()

    @property
    def is_settled(self) -> bool:
        """Whether all that was said is on disk."""
        return not (self._is_writing or self._wanted.is_set() or self._events or self._pieces)

    async def settled(self) -> None:
        """See Voice."""
        while not self.is_settled and self._error is None:
            self._written.clear()
            await self._written.wait()
        self._raise()

    async def _settled_or_late(self) -> None:
        """The end of a process does not wait for a store: what is in the spool lands after the next start."""
        settled = asyncio.ensure_future(self.settled())
        late = asyncio.ensure_future(self._late.is_late.wait())
        try:
            await asyncio.wait({settled, late}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
            late.cancel()
            await asyncio.wait({settled, late})
        if not settled.cancelled():
            settled.result()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                if events := self._take():
                    await self._append(events)
            except JournalError as error:
                self._error = error
                self._written.set()
                return
            except BaseException:
                # Whoever waits for this task must not wait for ever.
                self._error = StoreClosed(f"nobody writes for run {self.run_id} any more")
                self._written.set()
                raise
            if not self._events and not self._pieces:
                self._wanted.clear()
            self._written.set()

    def _take(self) -> Sequence[Event]:
        self._close_delta()
        events, self._events = self._events, []
        return events

    async def _append(self, events: Sequence[Event]) -> None:
        self._gathered_chars = 0
        self._is_writing = True
        try:
            await self._heed(await self._late.append(events, meanwhile=self._said_meanwhile))
        finally:
            self._is_writing = False
            self._gathered_chars -= self._waiting_chars
            self._waiting_chars = 0

    async def _said_meanwhile(self) -> Sequence[Event]:
        """What is said while earlier events wait for the store; it still counts as gathered."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._waiting_chars = self._gathered_chars
            if events := self._take():
                return events

    async def append(
        self, events: Sequence[Event], *, when: Sequence[Condition] = ()
    ) -> Appended | Declined | Replayed:
        """Append now, past what is gathered; trouble of the store that passes is waited for."""
        clean = [self.secrets.out_of(event) for event in events]
        return await self._heed(await self._late.append(clean, when=when))

    async def _heed(self, result: Appended | Declined | Replayed) -> Appended | Declined | Replayed:
        if isinstance(result, Appended):
            self.last_seq = result.last_seq
        elif isinstance(result, Replayed):
            self.last_seq = await self._journal.last_seq(self.session_id)
        return result
