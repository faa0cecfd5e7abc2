"""A channel in a process of its own, the fake Telegram outside of it, and people who write there."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agent.world import World
from holdfast.channels.channel_log import channel_state
from holdfast.channels.deps import ChannelDeps, ChannelOptions
from holdfast.channels.service import Channels
from holdfast.chaos import CallTool, Say, Script, SeenRequest
from holdfast.chaos.telegram import FakeTelegram
from holdfast.folds.channel import ChannelState
from holdfast.interfaces.clock import Clock
from holdfast.racing import wait_through_cancel
from holdfast.server.channels.doors import ChannelDoors
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ConfiguredChannel, ServerOptions
from serving import Setting

ME = 42
LOG = "chn_tg"


def options_for(telegram: FakeTelegram, **fields: object) -> ChannelOptions:
    """A channel whose owner has the id 42."""
    usual = ChannelOptions(
        name="tg",
        token=telegram.token,
        base_url=telegram.url,
        allow=frozenset({str(ME)}),
        approvers=frozenset({str(ME)}),
    )
    return replace(usual, **fields)  # pyright: ignore[reportArgumentType]


def deps_of(world: World, clock: Clock | None = None, *, doors: ChannelDoors | None = None) -> ChannelDeps:
    return ChannelDeps(
        doors=doors or ChannelDoors(),
        store=world.store,
        clock=clock or world.clock,
        inbox=world.inbox,
        supervisor=world.supervisor,
        workspace=Path("/tmp"),  # noqa: S108  # nothing is written
        models=lambda: ("chaos", "other"),
    )


def served_channels(
    *options: ChannelOptions, clock: Clock | None = None, url: asyncio.Future[str] | None = None
) -> Setting:
    """A server that runs these channels, and shows them; with a `url`, platforms deliver there."""

    async def work(deps: RouteDeps) -> None:
        webhook_url = await url if url is not None else ""
        channel_deps = ChannelDeps(
            store=deps.store,
            clock=clock or deps.clock,
            inbox=deps.inbox,
            supervisor=deps.supervisor,
            workspace=Path("/tmp"),  # noqa: S108  # nothing is written
            doors=deps.channel_doors,
        )
        await Channels(channel_deps, [replace(one, webhook_url=webhook_url) for one in options]).run()

    shown = {one.name: _shown(one) for one in options}
    return Setting(options=ServerOptions(channels=shown), also={"channels": work})


def _shown(options: ChannelOptions) -> ConfiguredChannel:
    is_slack = options.kind == "slack"
    return ConfiguredChannel(
        options.kind,
        options.allow,
        options.approvers,
        hook_secret="" if is_slack else options.hook_secret,
        signing_secret=options.signing_secret if is_slack else "",
    )


@asynccontextmanager
async def channel(
    world: World,
    options: ChannelOptions,
    *,
    clock: Clock | None = None,
    doors: ChannelDoors | None = None,
) -> AsyncGenerator[asyncio.Task[None]]:
    """The channels of a server, until the block ends."""
    async with running(deps_of(world, clock, doors=doors), options) as task:
        yield task


@asynccontextmanager
async def running(deps: ChannelDeps, *options: ChannelOptions) -> AsyncGenerator[asyncio.Task[None]]:
    """These channels, until the block ends."""
    task = asyncio.create_task(Channels(deps, options).run())
    try:
        yield task
    finally:
        task.cancel()
        await wait_through_cancel(task)


async def state_of(world: World) -> ChannelState:
    return await channel_state(world.store, LOG)


async def said(telegram: FakeTelegram, *texts: str, chat: int = ME) -> None:
    """Wait until the bot has said exactly this in the chat, in this order."""
    await until(telegram, lambda: len(telegram.world.chat(chat).texts()) >= len(texts))
    assert telegram.world.chat(chat).texts() == list(texts)


async def until(telegram: FakeTelegram, condition: Callable[[], bool]) -> None:
    await telegram.world.changed.until(condition)


def last_user_text(request: SeenRequest) -> str:
    """What the model was told last by a person."""
    found = [one for one in (request.body or {})["messages"] if one["role"] == "user"]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportGeneralTypeIssues]
    return str(found[-1]["content"])  # pyright: ignore[reportUnknownArgumentType]


def echo(request: SeenRequest) -> Script:
    """The model repeats what it was told."""
    return [Say(f"re: {last_user_text(request)}")]


def file_then_words(request: SeenRequest) -> Script:
    """The model sends a file, and once that is done it says so."""
    if "is on its way to the chat" in str(request.body):
        return [Say("there you are")]
    return [CallTool("send_file", {"path": "a.txt", "caption": "notes"})]
