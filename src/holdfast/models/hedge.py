"""Hedging: a second attempt next to one that is slow to start; the first to make progress wins."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import Struct, field
from typing_extensions import override

from holdfast.decisions.failures import Classified
from holdfast.events import Event
from holdfast.interfaces.model import Answer, EventSink
from holdfast.models.attempt import Attempt
from holdfast.models.status_lines import SLOWER
from holdfast.racing import race
from holdfast.targets import Target


class HeldSink(EventSink):
    """A sink that holds events back, in order, until it is released."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._held: list[Event] | None = []
        self.live: Callable[[], str] | None = None
        self.run_id = sink.run_id
        self.resumed = sink.resumed
        self.now_ms = sink.now_ms
        self.next_segment = sink.next_segment
        self.say = sink.say
        self.think = sink.think
        self.room = sink.room
        self.flush = sink.flush

    @property
    @override
    def full(self) -> bool:
        return self._sink.full

    @override
    def emit(self, event: Event) -> None:
        if self._held is None:
            self._sink.emit(event)
        else:
            self._held.append(event)

    def emit_held(self) -> None:
        """Emit the held events."""
        held, self._held = self._held or [], None
        for event in held:
            self._sink.emit(event)

    def release(self) -> None:
        """Emit the held events, and pass on later ones and the live line."""
        self.emit_held()
        self._sink.live = lambda: "" if self.live is None else self.live()


@dataclass(slots=True, eq=False)
class Contender:
    """One of up to two attempts; `run` takes a callback for its first progress."""

    target: Target
    attempt: Attempt
    run: Callable[[Callable[[], None] | None], Awaitable[Answer | Classified]]
    sink: EventSink
    task: asyncio.Future[Answer | Classified] | None = None

    @property
    def ended(self) -> Answer | Classified:
        """How its attempt ended."""
        assert self.task is not None, "it was started"
        return self.task.result()

    @property
    def was_slower(self) -> bool:
        """Whether it was cancelled because the other one made progress."""
        return self.task is not None and self.task.cancelled()


class Race(Struct):
    """Runs `first`, and also `second` if `first` is silent for too long; `run` may be awaited once.

    On the log, text belongs to the attempt that started last. So the second attempt is recorded only when it
    wins, or when the first has ended.
    """

    first: Contender
    second: Contender
    share: float  # of the first-event patience
    may_hedge: Callable[[], bool]
    lost: list[Contender] = field(default_factory=list[Contender])

    async def run(self) -> Contender:
        """The contender that decides, with its task done; `lost` has the other one."""
        cause = SLOWER
        try:
            self._start(self.first)
            if await self._is_silent() and self.may_hedge():
                self._start(self.second)
            return await self._decided()
        except asyncio.CancelledError as error:
            cause = str(error.args[0]) if error.args else ""
            raise
        finally:
            await self._end(cause)

    def _start(self, contender: Contender) -> None:
        advanced = contender.run(lambda: self._advanced(contender))
        contender.task = asyncio.ensure_future(advanced)

    async def _is_silent(self) -> bool:
        task = self.first.task
        assert task is not None
        while not task.done():
            await asyncio.sleep(0)  # let it start
            left_s = self.first.attempt.first_event_left_s(self.share)
            if left_s is None:
                return False
            if left_s <= 0:
                return True
            await asyncio.wait([task], timeout=left_s)
        return False

    async def _decided(self) -> Contender:
        running = {each.task: each for each in (self.first, self.second) if each.task is not None}
        while True:
            await race(watched=running)
            ended = running.pop(next(task for task in running if task.done()))
            if ended in self.lost:
                continue
            if isinstance(ended.ended, Answer) or all(other in self.lost for other in running.values()):
                return ended
            # It failed before the other made progress: the other continues alone.
            self.lost.append(ended)
            if ended is self.first and isinstance(self.second.sink, HeldSink):
                self.second.sink.release()

    def _advanced(self, winner: Contender) -> None:
        loser = self.second if winner is self.first else self.first
        if winner in self.lost or loser.task is None or loser in self.lost:
            return
        self.lost.append(loser)
        loser.task.cancel(SLOWER)
        if isinstance(winner.sink, HeldSink):
            winner.sink.release()

    async def _end(self, cause: str) -> None:
        tasks = [each.task for each in (self.first, self.second) if each.task is not None]
        running = [task for task in tasks if not task.done()]
        for task in running:
            task.cancel(cause)
        if running:
            await asyncio.wait(running)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio doesn't complain that nobody did
        if isinstance(self.second.sink, HeldSink):
            self.second.sink.emit_held()
