"""The channels of the settings: what the server shows of them, and their work."""

import asyncio
import os
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.config.channels import ChannelSettings
from holdfast.config.settings import Settings
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions, ConfiguredChannel
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.features.channels.service import Channels
from holdfast.host.runtime import Runtime
from holdfast.server.deps import RouteDeps
from holdfast.values import Budget, RunSettings, mode_named


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
    return {one.name: configured_channel(one) for one in settings.channels}


def _placed(options: ChannelOptions) -> ChannelOptions:
    """The options with the real path of the workspace. Blocks."""
    folder = options.settings.workspace
    settings = replace(options.settings, workspace=folder and os.path.realpath(folder))
    return replace(options, settings=settings)


def configured_channel(channel: ChannelSettings) -> ConfiguredChannel:
    """One channel of the settings, as far as the server shows it and lets its platform in."""
    options = channel_options(channel)
    is_called, is_slack = bool(options.webhook_url), channel.kind == "slack"
    if channel.kind == "bridge":
        return ConfiguredChannel(
            channel.kind,
            options.allow,
            options.approvers,
            signing_secret=options.token,
            signature="standard",
        )
    return ConfiguredChannel(
        channel.kind,
        options.allow,
        options.approvers,
        hook_secret=options.hook_secret if is_called and not is_slack else "",
        signing_secret=options.signing_secret if is_called and is_slack else "",
    )


def channel_options(channel: ChannelSettings) -> ChannelOptions:
    """One channel of the settings."""
    budget = Budget(cost_usd=channel.budget_usd) if channel.budget_usd else None
    return ChannelOptions(
        name=channel.name,
        kind=channel.kind,
        token=str(channel.token),
        app_token=str(channel.app_token),
        signing_secret=str(channel.signing_secret),
        base_url=channel.base_url,
        webhook_url=channel.webhook_url,
        allow=frozenset(channel.allow),
        approvers=frozenset(channel.approvers),
        groups=channel.groups,
        home=channel.home,
        approvals=mode_named(channel.approvals),
        settings=RunSettings(
            model=channel.target,
            instructions=channel.instructions,
            workspace=channel.workspace,
            tools=channel.tools,
            budget=budget,
            offline=channel.sandbox == "offline",
        ),
    )
