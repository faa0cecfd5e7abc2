"""The watchdog of one attempt: one exact timer on the event loop, and the cancel scope that it ends."""

import asyncio
import time
from types import TracebackType
from typing import Self

from holdfast.deadlines import (
    Deadline,
    Deadlines,
    Reading,
    Sign,
    State,
    Watch,
    begin,
    next_deadline,
    sign_of,
    step,
    wake,
)
from holdfast.model_events import ModelEvent


class Watchdog:
    """An async context manager that ends its block with TimeoutError when a deadline passes.

    `passed` then says which. Progress by the thousand only moves a number: the timer goes off at the old
    time, sees that there was progress, and is set anew.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._watch = begin(deadlines, self._began_s)
        self._scope = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._armed = self._read()
        self._progress_s = 0.0
        self.passed: Deadline | None = None

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._disarm()
        return await self._scope.__aexit__(kind, error, trace)

    @property
    def state(self) -> State:
        """Where the attempt is."""
        return self._watch.state

    @property
    def deadline(self) -> Deadline | None:
        """What comes next if nothing happens."""
        return next_deadline(self._current())

    @property
    def elapsed_s(self) -> float:
        """How long the attempt has taken so far."""
        return self._loop.time() - self._began_s

    @property
    def silent_s(self) -> float:
        """How long ago the state began or, while streaming, the last progress was."""
        return self._loop.time() - self._current().since_s

    def hear(self, event: ModelEvent) -> None:
        """The model did something."""
        self.sign(sign_of(event))

    def sign(self, sign: Sign) -> None:
        """The attempt heard something."""
        if sign is Sign.PROGRESS and self._watch.state is State.STREAMING:
            self._progress_s = self._loop.time()
            return
        moved = step(self._current(), sign, now_s=self._loop.time())
        if moved is not self._watch:
            self._watch = moved
            self._arm()

    def rest(self) -> None:
        """Stop counting: it is we who keep the peer waiting."""
        self._disarm()

    def go_on(self) -> None:
        """Count again, from now."""
        self._watch = Watch(self._watch.deadlines, self._watch.state, self._loop.time())
        self._arm()

    def _current(self) -> Watch:
        watch = self._watch
        if self._progress_s > watch.since_s and watch.state is State.STREAMING:
            self._watch = watch = Watch(watch.deadlines, watch.state, self._progress_s)
        return watch

    def _arm(self) -> None:
        deadline = next_deadline(self._watch)
        if deadline is None:
            self._disarm()
        elif self._timer is None or self._timer.when() > deadline.at_s:
            self._disarm()
            self._armed = self._read()
            self._timer = self._loop.call_at(deadline.at_s, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        found = wake(self._current(), armed=self._armed, woke=self._read())
        if isinstance(found, Deadline):
            self.passed = found
            self._scope.reschedule(self._loop.time())
        else:
            self._watch = found
            self._arm()

    def _read(self) -> Reading:
        return Reading(self._loop.time(), time.time())
