"""Claims sessions that nobody owns: those that a node has released, or left behind when it died."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Store

_log = logging.getLogger(__name__)

LOOK_S = 1.0  # how often to look, also if nobody told of anything
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

    @property
    def is_shared(self) -> bool:
        """Whether other nodes may work on the same store; if not, there is nobody to claim from."""
        return bool(self._store.node.name)

    async def run(self, *, lost: Callable[[], Awaitable[None]]) -> None:
        """Claim what is free; `lost` is called when this node no longer owns what it had."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(lost))
            while True:
                await self._claim()
                await self._clock.sleep_s(LOOK_S)

    async def _watch(self, lost: Callable[[], Awaitable[None]]) -> None:
        async for changes in self._store.ownership():
            if "lost" in changes:
                await lost()
            await self._claim()

    async def _claim(self) -> None:
        if (room := min(self._room(), AT_ONCE)) <= 0:
            return
        try:
            for session_id in await self._store.claimable(limit=room):
                self._wake(session_id)
        except JournalError as error:
            _log.info("sessions that nobody owns can't be claimed yet: %s", error)
