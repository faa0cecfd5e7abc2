"""The channels of the settings: what the server shows of them, and their work.

Runs the channels of this server. Each has its own log, owned by one node at a time.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec.structs import asdict, replace

from holdfast import events as e
from holdfast.config.channels import ChannelSettings
from holdfast.config.settings import Settings
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions, ConfiguredChannel
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.features.channels.kinds import channel_kind, platform_module
from holdfast.host.runtime import Runtime
from holdfast.interfaces.ids import WEBHOOKS_LOG, new_epoch
from holdfast.interfaces.journal import Fence, IfSessionNew
from holdfast.journal.retrying_append import PASSING
from holdfast.runner.claims import RETRY_S, ClaimedLogs
from holdfast.server.deps import RouteDeps
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


NO_ONE = "-"  # no platform has a person with this id


async def run_channels(deps: RouteDeps, settings: Settings, runtime: Runtime) -> None:
    """Run the channels of the settings until cancelled."""
    models = tuple(target.name for target in runtime.targets)
    channel_deps = ChannelDeps(
        store=deps.store,
        clock=deps.clock,
        inbox=deps.inbox,
        supervisor=deps.supervisor,
        workspace=settings.workspace,
        budget=deps.agent.budget,
        endpoints=deps.singleton(WebhookEndpoints),
        models=lambda: models,
        mode_max=settings.approvals.mode_max,
    )
    options = await asyncio.to_thread(lambda: [_placed(channel_options(one)) for one in settings.channels])
    await Channels(channel_deps, options).run()


def configured_channels(settings: Settings) -> Mapping[str, ConfiguredChannel]:
    """Return the channels of the settings by name, as the server shows them."""
    return {one.name: configured_channel(channel_options(one)) for one in settings.channels}


def _placed(options: ChannelOptions) -> ChannelOptions:
    """The options with the real path of the workspace. Blocks."""
    return replace(options, workspace=options.workspace and os.path.realpath(options.workspace))


def configured_channel(options: ChannelOptions) -> ConfiguredChannel:
    """Return a channel as the server shows it, and the secrets of its platform's requests."""
    kind = channel_kind(options.kind)
    calls_us = bool(options.webhook_url) or not kind.needs_webhook_url
    return ConfiguredChannel(
        options.kind,
        frozenset(options.allow),
        frozenset(options.approvers),
        hook_secret=options.hook_secret if calls_us and not kind.signed_with else "",
        signing_secret=getattr(options, kind.signed_with) if calls_us and kind.signed_with else "",
        signature=kind.signature,
    )


def channel_options(channel: ChannelSettings) -> ChannelOptions:
    """One channel of the settings."""
    # Anyone can write any sender into a mail, so no one can approve.
    approvers = (NO_ONE,) if channel.authserv_id == "none" else channel.approvers
    fixed: dict[str, Any] = {"approvers": approvers, "login": channel.login or channel.address}
    return ChannelOptions(**asdict(channel) | fixed)
