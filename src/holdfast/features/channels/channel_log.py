"""A channel's log for its owner: the current state, and fenced appends."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.events import Event
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
)
from holdfast.features.channels.state import ChannelState, apply_to_channel
from holdfast.interfaces.ids import channel_name
from holdfast.interfaces.journal import Fence, Store
from holdfast.safe_text import sentences

_log = logging.getLogger(__name__)
READ_AT_ONCE = 500


async def channel_state(store: Store, log_id: str) -> ChannelState:
    """Read the state of a channel."""
    log = ChannelLog(store, log_id)
    await log.catch_up()
    return log.state


class ChannelLog:
    """One channel's log. Without a fence, it's read-only."""

    def __init__(self, store: Store, log_id: str, fence: Fence | None = None) -> None:
        self.log_id = log_id
        self.state = ChannelState()
        self.last_seq = 0
        self._store = store
        self._fence = fence
        self._is_told = False  # whether this owner has logged the connection
        self._reading = asyncio.Lock()
        self._waiting: set[asyncio.Future[None]] = set()

    async def append(self, *events: Event) -> None:
        """Append as the owner. The state includes the events on return."""
        assert self._fence is not None, "only the owner appends"
        await self._store.append_run(self.log_id, events, fence=self._fence)
        await self.catch_up()

    async def connected(self, at_ms: int, account: str, *, missed: str = "") -> bool:
        """Log that the channel is connected, unless this owner already did. Returns whether it logged."""
        if self._is_told and self.state.is_connected and self.state.account == account and not missed:
            return False
        self._is_told = True
        await self.append(ChannelConnected(at_ms=at_ms, account=account, missed=missed))
        return True

    async def failed(self, at_ms: int, why: str, hint: str = "") -> None:
        """Log a platform failure, once per outage."""
        if self.state.trouble != why:
            _log.warning("channel %s: %s", channel_name(self.log_id), sentences(why, hint))
            await self.append(ChannelFailed(at_ms=at_ms, why=why, hint=hint))

    async def catch_up(self) -> None:
        """Read new records."""
        async with self._reading:
            while True:
                records = await self._store.read(self.log_id, after=self.last_seq, limit=READ_AT_ONCE)
                for record in records:
                    apply_to_channel(self.state, record.seq, record.event)
                    self.last_seq = record.seq
                if len(records) < READ_AT_ONCE:
                    break
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def follow(self) -> None:
        """Apply other writers' appends until the log is purged."""
        async for _ in self._store.follow(self.log_id, after=self.last_seq):
            await self.catch_up()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        while not condition():
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)
