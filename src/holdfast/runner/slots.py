"""Slots limit how many runs work at once; a run that waits for a person or a provider holds none."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self


class Slots:
    """A number of slots, acquired in the order of the requests.

    A run continues at once after such a wait, even if that exceeds the limit for a while; the next run in the
    queue waits until there is room again.

    A place is reserved before a run is stored, so that concurrent requests can't make the queue longer than
    allowed. Once stored, the run is pending until its session's owner asks for its slot, or sees that it
    waits for something else.
    """

    def __init__(self, slots_max: int) -> None:
        self._free = slots_max
        self._waiting: OrderedDict[str, asyncio.Future[None]] = OrderedDict()
        self._reserved = 0
        self._pending: dict[str, str] = {}  # run -> session

    @property
    def free(self) -> int:
        """How many more runs could begin now."""
        return max(self._free - len(self._waiting) - len(self._pending), 0)

    @property
    def waiting(self) -> int:
        """How many runs wait for a slot."""
        return len(self._waiting)

    def position(self, run_id: str) -> int:
        """The run's position in the queue, starting at 1; 0 if it isn't waiting."""
        if run_id not in self._waiting:
            return 0
        return 1 + list(self._waiting).index(run_id)

    @contextmanager
    def reserve(self, *, waiting_max: int) -> Generator[bool]:
        """Reserve a slot or a place in the queue while the block stores a run; False if there is none."""
        claimed = self._reserved + len(self._pending) + len(self._waiting)
        has_room = claimed - max(self._free, 0) < waiting_max
        self._reserved += has_room
        try:
            yield has_room
        finally:
            self._reserved -= has_room

    def add_pending(self, run_id: str, *, session_id: str) -> None:
        """Note that the run is stored, and that its session's owner hasn't seen it yet."""
        self._pending[run_id] = session_id

    def remove_pending(self, run_id: str) -> None:
        """Note that the run is in the queue, or waits for something other than a slot."""
        self._pending.pop(run_id, None)

    def drop_pending(self, session_id: str) -> None:
        """Forget the session's pending runs, because its owner has failed."""
        for run_id in [run_id for run_id, session in self._pending.items() if session == session_id]:
            del self._pending[run_id]

    async def acquire(self, run_id: str) -> None:
        """Wait for a slot."""
        self.remove_pending(run_id)
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        given = self._waiting[run_id] = asyncio.get_running_loop().create_future()
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():
                self.release()  # it was given at the same moment
            raise
        finally:
            self._waiting.pop(run_id, None)

    def acquire_over_limit(self) -> None:
        """Take a slot even if none is free."""
        self._free -= 1

    def release(self) -> None:
        """Give a slot back."""
        self._free += 1
        while self._free > 0 and self._waiting:
            _, given = self._waiting.popitem(last=False)
            if not given.done():
                self._free -= 1
                given.set_result(None)


class Slot:
    """The slot of one run: an async context manager that waits for it, and can release it for a while."""

    def __init__(self, slots: Slots, run_id: str) -> None:
        self._slots = slots
        self._run_id = run_id
        self.is_requested = False  # whether the run is in the queue, or was
        self._is_acquired = False  # whether the block is entered
        self._is_released = False

    async def __aenter__(self) -> Self:
        self.is_requested = True
        await self._slots.acquire(self._run_id)
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
            self._slots.release()

    def reacquire(self) -> None:
        """Take it again at once."""
        if self._is_acquired and self._is_released:
            self._is_released = False
            self._slots.acquire_over_limit()
