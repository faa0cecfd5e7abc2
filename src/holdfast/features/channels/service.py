"""Runs the channels of this server. Each has its own log, owned by one node at a time."""

import asyncio
import logging
from collections.abc import Sequence
from importlib import import_module

from holdfast import events as e
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions, platform_module
from holdfast.interfaces.ids import WEBHOOKS_LOG, new_epoch
from holdfast.interfaces.journal import Fence, IfSessionNew
from holdfast.journal.retrying_append import PASSING
from holdfast.runner.claimed_logs import RETRY_S, ClaimedLogs
from holdfast.values import CHANNEL

_log = logging.getLogger(__name__)


class Channels:
    """All configured channels. They fail independently."""

    def __init__(self, deps: ChannelDeps, options: Sequence[ChannelOptions]) -> None:
        self._deps = deps
        self._options = {one.log_id: one for one in options}

    async def run(self) -> None:
        """Run until cancelled."""
        store, clock = self._deps.store, self._deps.clock
        await store.writable()
        for options in self._options.values():
            await self._create(options)
        await ClaimedLogs(store, clock, source=CHANNEL, own=self._own).run()

    async def _create(self, options: ChannelOptions) -> None:
        """Create the channel's log if needed, retrying until the store responds."""
        store, clock = self._deps.store, self._deps.clock
        while True:
            created = e.SessionCreated(
                at_ms=clock.now_ms(), epoch=new_epoch(), source=CHANNEL, title=options.name
            )
            try:
                await store.append(options.log_id, [created], when=[IfSessionNew()])
            except PASSING as error:
                _log.warning("channel %s waits for the store: %s", options.name, error)
                await clock.sleep_s(RETRY_S)
            else:
                return

    async def _own(self, log_id: str, fence: Fence) -> None:
        options = self._options.get(log_id)
        if log_id == WEBHOOKS_LOG:
            await asyncio.to_thread(import_module, "holdfast.features.channels.webhooks")
            from holdfast.features.channels.webhooks import run_webhooks

            await run_webhooks(self._deps, log_id, fence)
            return
        # A channel that isn't configured here is left to other servers. Nothing is sent or lost.
        if options is not None:
            await asyncio.to_thread(import_module, "holdfast.features.channels.owner")
            from holdfast.features.channels.owner import own_channel

            platform = await asyncio.to_thread(platform_module, options.kind)
            await own_channel(self._deps, options, fence, open_platform=platform.open_channel)
