"""Slots limit how many runs work at once; a run that waits for a person or a provider holds none."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.decisions.fair_shares import FairShare


class _Waiting(Struct, frozen=True):
    """A run in the queue."""

    key: str
    given: asyncio.Future[None]


class _Pending(Struct, frozen=True):
    """A run that is stored and not yet in the queue."""

    key: str
    session_id: str


class Slots:
    """A number of slots that API keys share.

    The key that holds the fewest is next; of several, the one whose last turn was longest ago, so that a key
    with a long queue doesn't keep others waiting, even for a single slot. When none is free, a key that holds
    few gets an extra one. A run continues at once after a wait for a person or a provider, even if that
    exceeds the limit for a while; the next run in the queue waits until there is room again.

    A place is reserved before a run is stored, so that concurrent requests can't make the queue longer than
    allowed. Once stored, the run is pending until its session's owner asks for its slot, or sees that it
    waits for something else.
    """

    def __init__(self, slots_max: int) -> None:
        self._most = slots_max
        self._working = FairShare()
        self._queued = FairShare()  # reserved, pending and waiting
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._pending: dict[str, _Pending] = {}  # by run
        self._turns: dict[str, int] = {}  # when each key last got a slot, by number
        self._turn = 0

    @property
    def free(self) -> int:
        """How many more runs could begin now."""
        return max(self._most - self._working.used - len(self._waiting) - len(self._pending), 0)

    @property
    def waiting(self) -> int:
        """How many runs wait for a slot."""
        return len(self._waiting)

    def position(self, run_id: str) -> int:
        """The run's position in the queue, starting at 1; 0 if it isn't waiting."""
        if run_id not in self._waiting:
            return 0
        held: dict[str, int] = {}  # by key, as if each run before had its slot
        ranks: dict[str, tuple[int, int]] = {}
        for waiting_id, one in self._waiting.items():
            ranks[waiting_id] = (
                held.setdefault(one.key, self._working.held(one.key)),
                self._turns[one.key],
            )
            held[one.key] += 1
        return 1 + sorted(ranks, key=ranks.__getitem__).index(run_id)

    @contextmanager
    def reserve(self, *, waiting_max: int, key: str = "") -> Generator[bool]:
        """Reserve a slot or a place in the queue while the block stores a run; False if there is none."""
        has_room = self._queued.has_room(key, waiting_max + max(self._most - self._working.used, 0))
        if has_room:
            self._queued.acquire(key)
        try:
            yield has_room
        finally:
            if has_room:
                self._queued.release(key)

    def add_pending(self, run_id: str, *, session_id: str, key: str = "") -> None:
        """Note that the run is stored, and that its session's owner hasn't seen it yet."""
        self.remove_pending(run_id)
        self._pending[run_id] = _Pending(key, session_id)
        self._queued.acquire(key)

    def remove_pending(self, run_id: str) -> None:
        """Note that the run is in the queue, or waits for something other than a slot."""
        pending = self._pending.pop(run_id, None)
        if pending is not None:
            self._queued.release(pending.key)

    def drop_pending(self, session_id: str) -> None:
        """Forget the session's pending runs, because its owner has failed."""
        for run_id in [run_id for run_id, one in self._pending.items() if one.session_id == session_id]:
            self.remove_pending(run_id)

    async def acquire(self, run_id: str, *, key: str = "") -> None:
        """Wait for a slot."""
        self.remove_pending(run_id)
        if self._working.has_room(key, self._most):
            self._give(key)
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting[run_id] = _Waiting(key, given)
        # A key that comes and goes isn't ahead of one that has waited for longer.
        self._turns.setdefault(key, self._turn - 1)
        self._queued.acquire(key)
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():
                self.release(key)  # it was given at the same moment
            elif run_id in self._waiting:
                self._leave_queue(run_id)
            raise

    def _give(self, key: str) -> None:
        self._working.acquire(key)
        self._turn += 1
        self._turns[key] = self._turn

    def _next(self) -> tuple[str, _Waiting]:
        """The run that gets the next slot."""

        def rank(item: tuple[str, _Waiting]) -> tuple[int, int]:
            key = item[1].key
            return self._working.held(key), self._turns[key]

        return min(self._waiting.items(), key=rank)

    def _leave_queue(self, run_id: str) -> asyncio.Future[None]:
        one = self._waiting.pop(run_id)
        self._queued.release(one.key)
        return one.given

    def acquire_over_limit(self, key: str = "") -> None:
        """Take a slot even if none is free."""
        self._working.acquire(key)

    def release(self, key: str = "") -> None:
        """Give a slot back."""
        self._working.release(key)
        if not self._working.held(key) and not self._queued.held(key):
            self._turns.pop(key, None)
        while self._waiting:
            run_id, one = self._next()
            if not self._working.has_room(one.key, self._most):
                return
            given = self._leave_queue(run_id)
            if not given.done():
                self._give(one.key)
                given.set_result(None)


class Slot:
    """The slot of one run: an async context manager that waits for it, and can release it for a while."""

    def __init__(self, slots: Slots, run_id: str, *, key: str = "") -> None:
        self._slots = slots
        self._run_id = run_id
        self._key = key
        self.is_requested = False  # whether the run is in the queue, or was
        self._is_acquired = False  # whether the block is entered
        self._is_released = False

    async def __aenter__(self) -> Self:
        self.is_requested = True
        await self._slots.acquire(self._run_id, key=self._key)
        self._is_acquired = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._is_acquired = False

    def release(self) -> None:
        """Let another run have it."""
        if self._is_acquired and not self._is_released:
            self._is_released = True
            self._slots.release(self._key)

    def reacquire(self) -> None:
        """Take it again at once."""
        if self._is_acquired and self._is_released:
            self._is_released = False
            self._slots.acquire_over_limit(self._key)
