"""A Discord channel in a process of its own, the fake Discord outside of it, and people who write there."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from agent.world import World
from fakes.discord import FakeDiscord
from features.channels.lab import LONG_S, deps_of, running
from holdfast.config.fields import Secret
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.state import ChannelState
from holdfast.interfaces.clock import Clock

ME = 42
LOG = "chn_dc"
PREVIEW_BEAT_S = 0.01


def options_for(discord: FakeDiscord, **fields: object) -> ChannelOptions:
    """A channel whose owner has the id 42."""
    usual = ChannelOptions(
        name="dc",
        kind="discord",
        token=Secret(discord.token),
        base_url=discord.url,
        allow=(str(ME),),
        approvers=(str(ME),),
    )
    return replace(usual, **fields)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def starting(
    world: World, options: ChannelOptions, *, clock: Clock | None = None, preview_after_s: float = LONG_S
) -> AsyncGenerator[asyncio.Task[None]]:
    """The channels of a server, until the block ends; no preview appears unless a test is about it."""
    deps = replace(deps_of(world, clock), preview_after_s=preview_after_s, preview_beat_s=PREVIEW_BEAT_S)
    async with running(deps, options) as task:
        yield task


@asynccontextmanager
async def channel(
    world: World,
    discord: FakeDiscord,
    *,
    clock: Clock | None = None,
    preview_after_s: float = LONG_S,
    **fields: object,
) -> AsyncGenerator[asyncio.Task[None]]:
    """The same, once the gateway is connected: Discord keeps nothing for a bot that it doesn't know."""
    options = options_for(discord, **fields)
    async with starting(world, options, clock=clock, preview_after_s=preview_after_s) as task:
        sessions = discord.world.sessions
        await until(discord, lambda: bool(discord.world.commands and sessions.sockets and sessions.known))
        yield task


async def state_of(world: World) -> ChannelState:
    return await channel_state(world.store, LOG)


def texts(discord: FakeDiscord, user: int = ME) -> list[str]:
    """What the bot said to a person."""
    return discord.world.direct(user).texts()


def say(discord: FakeDiscord, text: str, user: int = ME) -> dict[str, object]:
    """A person writes to the bot."""
    return discord.world.say(discord.world.direct(user), text)


async def said(discord: FakeDiscord, *wanted: str, user: int = ME) -> None:
    """Wait until the bot has said exactly this to the person, in this order."""
    await until(discord, lambda: len(texts(discord, user)) >= len(wanted))
    assert texts(discord, user) == list(wanted)


async def until(discord: FakeDiscord, condition: Callable[[], bool]) -> None:
    await discord.world.changed.until(condition)
