"""A Discord channel: the gateway in, messages and cards out, and previews while the agent works."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.discord.api import (
    ApiRequest,
    DiscordApi,
    DiscordFailure,
    DiscordResult,
    open_discord,
)
from holdfast.features.channels.discord.carrier import DIALECT, DiscordCarrier, KeptProgress
from holdfast.features.channels.discord.clicks import Clicks
from holdfast.features.channels.discord.gateway import (
    DIRECT_MESSAGES,
    GUILD_MESSAGES,
    GUILDS,
    MESSAGE_CONTENT,
    DiscordGateway,
)
from holdfast.features.channels.discord.intake import DiscordIntake
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.intake import Platform
from holdfast.features.channels.kinds import CHECK_S, NETWORK
from holdfast.features.channels.messages import shaped
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.previews import MessagePreviews
from holdfast.features.channels.store_errors import readable_view
from holdfast.interfaces.system_clock import SystemClock

MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19  # an application in many servers has the first, others the second
TYPING_S = 8.0  # "typing" lasts 10 s
TYPING_ANSWER_S = 10.0


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one bot, until the block ends."""
    async with open_discord(token=str(options.token), base_url=options.base_url, clock=deps.clock) as api:
        clicks, locks = Clicks(api, deps.clock), ChatLocks()
        carrier = DiscordCarrier(api, deps.supervisor, log.state.outbox, deps.store, log_id=log.log_id)

        async def connect(accept: Accept) -> None:
            intake = DiscordIntake(api, log, deps.clock, accept=accept, clicks=clicks)
            kept = KeptProgress(deps.store, log.log_id)
            gateway = DiscordGateway(
                api, log, deps.clock, intake=intake, kept=kept, intents=intents_for(options)
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(clicks.run())
                tasks.create_task(intake.run())
                tasks.create_task(gateway.run())

        async def show_work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(MessagePreviews(deps, log, carrier, locks).run())
                tasks.create_task(_type(api, log, deps))

        yield ChatPlatform(
            carrier=carrier,
            inbound=_inbound(api, options, clicks),
            connect=connect,
            show_work=show_work,
            locks=locks,
            can_probe=True,
        )


def intents_for(options: ChannelOptions) -> int:
    """Return the minimal gateway intents.

    Mentions and direct messages include their text without a privileged intent.
    """
    intents = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES
    return intents | MESSAGE_CONTENT if options.groups == "all" else intents


def _inbound(api: DiscordApi, options: ChannelOptions, clicks: Clicks) -> Platform:
    async def download(file: ChatFile) -> bytes | None:
        return await api.download(file.handle, bytes_max=options.file_bytes_max)

    return Platform(download, clicks.answer, DIALECT, takes_files=True)


async def _type(api: DiscordApi, log: ChannelLog, deps: ChannelDeps) -> None:
    """Show "typing" where the agent is active. Best effort: failures are ignored."""
    while True:
        await deps.clock.sleep_s(TYPING_S / 4)
        chats = {one.session_id: one.chat for one in log.state.awaited.values()}
        working: list[str] = []
        for session_id, chat in chats.items():
            view = await readable_view(deps.supervisor, session_id)
            run = view.session.current_run if view is not None else None
            if run is not None and not run.open_asks and chat not in log.state.outbox.closed_chats:
                working.append(chat)
        requests = [ApiRequest("POST", f"/channels/{chat}/typing", "POST typing", chat) for chat in working]
        await asyncio.gather(*(api.call(one, answer_s=TYPING_ANSWER_S) for one in requests))
        if requests:
            await deps.clock.sleep_s(TYPING_S)


async def check(options: ChannelOptions) -> DoctorFinding:
    """Check it for `holdfast doctor`."""
    name, about = f"channel {options.name}", ApiRequest("GET", "/applications/@me", "GET application")
    clock = SystemClock()
    async with open_discord(token=str(options.token), base_url=options.base_url, clock=clock) as api:
        reply = await api.who_am_i()
        if isinstance(reply, DiscordResult):
            reply = await api.call(about, answer_s=CHECK_S)
        account = api.bot_name
    if isinstance(reply, DiscordFailure):
        advice = "check `token`: discord.com/developers, your application, Bot"
        return fault(name, f"Discord rejected the token: {reply.text}", advice)
    if not isinstance(reply, DiscordResult):
        return fault(name, f"Can't reach Discord: {reply.why}", NETWORK)
    application = shaped(reply.value, dict[str, Any]) or {}
    has_content = bool((shaped(application.get("flags"), int) or 0) & MESSAGE_CONTENT_FLAGS)
    if options.groups == "all" and not has_content:
        return fault(
            name,
            f"connected to Discord as {account}, but can't read messages in servers",
            "turn on the Message Content intent (discord.com/developers, your application, Bot), or set "
            'groups = "mention"',
        )
    return ok(name, f"connected to Discord as {account}")
