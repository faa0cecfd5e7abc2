"""Claims sessions without an owner, which a node released or left behind when it died."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Store

_log = logging.getLogger(__name__)

LOOK_S = 1.0  # how often to check without a notification
LEFT_S = 10.0  # how long a session is left alone whose run needs what this node lacks
AT_ONCE = 100


class Claims:
    """Looks for work whenever there may be some, and takes no more of it than there is room for."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        room: Callable[[], int],
        busy: Callable[[], Collection[str]],
        wake: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._room = room
        self._busy = busy
        self._wake = wake
        self._left_until_s: dict[str, float] = {}

    @property
    def is_shared(self) -> bool:
        """Return whether other nodes can share the store; if not, there is nothing to claim."""
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

    def leave_for_now(self, session_id: str) -> None:
        """Don't look at a session for a while: this node lacks what its run needs, or can't go on with it."""
        self._left_until_s[session_id] = self._clock.monotonic_s() + LEFT_S

    async def _claim(self) -> None:
        if (room := min(self._room(), AT_ONCE)) <= 0:
            return
        try:
            now_s = self._clock.monotonic_s()
            left = {id_: until_s for id_, until_s in self._left_until_s.items() if until_s > now_s}
            self._left_until_s = left
            found = await self._store.claimable(limit=room + len(left), busy=self._busy())
            for session_id in [id_ for id_ in found if id_ not in left][:room]:
                self._wake(session_id)
        except JournalError as error:
            _log.info("sessions that nobody owns can't be claimed yet: %s", error)
