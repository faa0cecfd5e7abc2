"""Claims sessions that nobody owns: those that a node has released, or left behind when it died."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Store

_log = logging.getLogger(__name__)

AGAIN_S = 0.5  # after a look that failed
AT_ONCE = 100


class Claims:
    """Looks for work whenever there may be some, and takes no more of it than there is room for."""

    def __init__(
        self, store: Store, clock: Clock, *, room: Callable[[], int], wake: Callable[[str], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._room = room
        self._wake = wake
        self._is_due = asyncio.Event()
        self._is_due.set()

    @property
    def is_shared(self) -> bool:
        """Whether other nodes may work on the same store; if not, there is nobody to claim from."""
        return bool(self._store.node.name)

    def look(self) -> None:
        """Look again: there may be room for more."""
        self._is_due.set()

    async def run(self, *, lost: Callable[[], None]) -> None:
        """Claim what is free; `lost` is called when this node no longer owns what it had."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(lost))
            while True:
                await self._is_due.wait()
                self._is_due.clear()
                try:
                    await self._claim()
                except JournalError as error:
                    _log.info("sessions that nobody owns can't be claimed yet: %s", error)
                    await self._clock.sleep_s(AGAIN_S)
                    self.look()

    async def _watch(self, lost: Callable[[], None]) -> None:
        async for change in self._store.ownership():
            if change == "lost":
                lost()
            self.look()

    async def _claim(self) -> None:
        room = min(self._room(), AT_ONCE)
        if room > 0:
            for session_id in await self._store.claimable(limit=room):
                self._wake(session_id)
