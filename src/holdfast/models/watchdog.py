"""The watchdog of one attempt: one exact timer on the event loop, and the cancel scope that it ends."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from holdfast.decisions.deadlines import (
    TRANSITIONS,
    ClockReading,
    Deadline,
    Deadlines,
    Sign,
    State,
    Watch,
    begin,
    due_s,
    next_deadline,
    sign_of,
    step,
    wake,
)
from holdfast.interfaces.system_clock import steady_s
from holdfast.model_events import PIECES, ModelEvent


class Watchdog:
    """An async context manager that ends its block with TimeoutError when a deadline passes.

    `passed` then says which one. Progress is frequent, so it only updates a number: the timer fires at the
    old time, notices the progress, and is set again.
    """

    def __init__(self, deadlines: Deadlines, *, steady_s: Callable[[], float] = steady_s) -> None:
        loop = asyncio.get_running_loop()
        self._now_s = loop.time
        self._call_at = loop.call_at
        self.call_later = loop.call_later
        self._steady_s = steady_s
        self._watch = begin(deadlines, self._now_s())
        self._scope = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when it is due; uvloop's handle of a time that has passed doesn't know
        self._armed: ClockReading  # when the timer was set
        self._paused = False
        self._streaming = False
        self.progress_s: float | None = None  # the model's last progress, by the loop's clock
        self.first_event_s: float | None = None  # how long the sent request waited for its first event
        self.passed: Deadline | None = None
        self.on_progress: Callable[[], None] | None = None  # called once, before any output
        self.on_connected: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.pause()
        self.on_progress = self.on_connected = None  # whoever is called by them holds the watchdog
        return await self._scope.__aexit__(kind, error, trace)

    @property
    def state(self) -> State:
        """The state of the attempt."""
        return self._watch.state

    @property
    def deadline(self) -> Deadline | None:
        """The next deadline; None while paused."""
        return None if self._paused else next_deadline(self._current())

    @property
    def silent_s(self) -> float:
        """How long ago the state began or, while streaming, the last progress."""
        return self._now_s() - self._current().since_s

    @property
    def without_progress_s(self) -> float | None:
        """How long ago the model's last progress was; None if there was none."""
        return None if self.progress_s is None else self._now_s() - self.progress_s

    def first_event_left_s(self, share: float) -> float | None:
        """How long until this share of the first-event patience is over; None once an event has arrived."""
        whole_s = share * self._watch.deadlines.first_event.patience_s
        if self._watch.state is State.WAITING:
            return whole_s - self.silent_s
        return whole_s if self._watch.state in {State.CONNECTING, State.UPLOADING} else None

    def progressed(self) -> None:
        """Note progress; in a stream this is frequent, and changes no state."""
        if self._streaming:
            self.progress_s = self._now_s()
        else:
            self.sign(Sign.PROGRESS)

    def observe(self, event: ModelEvent) -> None:
        """Note a model event."""
        if self._streaming and isinstance(event, PIECES):
            if event.text:
                self.progress_s = self._now_s()
        else:
            self.sign(sign_of(event))

    def sign(self, sign: Sign) -> None:
        """Note a sign of life."""
        if sign is not Sign.PROGRESS and sign not in TRANSITIONS[self._watch.state]:
            return
        now_s = self._now_s()
        before = self._current()
        if sign is Sign.PROGRESS:
            if self.progress_s is None and self.on_progress is not None:
                self.on_progress()
            self.progress_s = now_s
            if self._streaming:
                return
        moved = step(before, sign, now_s=now_s)
        if moved is before:
            return
        if before.state is State.CONNECTING and self.on_connected is not None:
            self.on_connected()
        if before.state is State.WAITING:
            self.first_event_s = now_s - before.since_s
        elif before.state is State.UPLOADING and moved.state not in {State.UPLOADING, State.WAITING}:
            self.first_event_s = 0.0
        self._enter(moved)

    def restart(self) -> None:
        """Start again with another connection."""
        self._enter(begin(self._watch.deadlines, self._now_s()))

    def pause(self) -> None:
        """Stop counting, because the peer waits for us."""
        self._paused = True
        self._disarm()

    def resume(self) -> None:
        """Count again, from now."""
        self._paused = False
        self._enter(Watch(self._watch.deadlines, self._watch.state, self._now_s()))

    def _enter(self, watch: Watch) -> None:
        self._watch = watch
        self._streaming = watch.state is State.STREAMING
        self._arm()

    def _current(self) -> Watch:
        watch = self._watch
        if self._streaming and self.progress_s is not None and self.progress_s > watch.since_s:
            self._watch = watch = Watch(watch.deadlines, watch.state, self.progress_s)
        return watch

    def _arm(self) -> None:
        at_s = None if self._paused else due_s(self._watch)
        if at_s is None:
            self._disarm()
        elif self._timer is None or self._timer_s > at_s:
            self._disarm()
            self._timer_s = at_s
            self._armed = self._read()
            self._timer = self._call_at(at_s, self._check)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        found = wake(self._current(), armed=self._armed, woke=self._read())
        if isinstance(found, Deadline):
            self.passed = found
            self._scope.reschedule(self._now_s())
        else:
            self._watch = found
            self._arm()

    def _read(self) -> ClockReading:
        return ClockReading(self._now_s(), self._steady_s())
