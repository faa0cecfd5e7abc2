"""The states of channels, kept up to date from their logs for everyone who asks."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.features.channels.state import ChannelState, apply_to_channel
from holdfast.interfaces.journal import Reading
from holdfast.values import CHANNEL

if TYPE_CHECKING:
    from holdfast.server.deps import RouteDeps

READ_AT_ONCE = 500


class ChannelFolds:
    """One fold for each channel. Each event is read once; what is handed out is read-only."""

    def __init__(self) -> None:
        self._folds: dict[str, tuple[ChannelState, int]] = {}
        self._reading = asyncio.Lock()

    async def state(self, journal: Reading, log_id: str) -> ChannelState:
        """The channel's state at the end of its log; an empty one if there is no such log."""
        async with self._reading:
            state, after = self._folds.get(log_id, (ChannelState(), 0))
            while records := await journal.read(log_id, after=after, limit=READ_AT_ONCE):
                for record in records:
                    apply_to_channel(state, record.seq, record.event)
                after = records[-1].seq
                self._folds[log_id] = (state, after)
            return state


async def sessions_in_use(deps: "RouteDeps") -> set[str]:
    """The sessions that chats have now, and those of which a chat awaits an answer."""
    folds, found = deps.singleton(ChannelFolds), set[str]()
    for row in await deps.store.logs(CHANNEL):
        state = await folds.state(deps.store, row.session_id)
        found.update(state.sessions.values(), (one.session_id for one in state.awaited.values()))
    return found
