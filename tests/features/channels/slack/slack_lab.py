"""A Slack channel in a process of its own, the fake Slack outside of it, and people who write there.

Slack tells the channel what happens over a socket, or by calls to the real route: `by_socket`, `by_calls`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from agent.world import World
from fakes.slack import FakeSlack
from features.channels.lab import channel
from holdfast.config.fields import Secret
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.deps import ChannelOptions, ConfiguredChannel
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.features.channels.state import ChannelState
from holdfast.interfaces.clock import Clock
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ServerOptions
from serving import Served, Setting, served

Talking: TypeAlias = Callable[..., AbstractAsyncContextManager[None]]
PATH = "/hooks/channels/sl"
REPEATS_S = (0.05,) * 1_000  # before Slack calls again: soon, and for longer than any process is away
ME, MY = "U42", "D42"  # a person, and their direct conversation with the bot
LOG = "chn_sl"


def options_for(slack: FakeSlack, **fields: object) -> ChannelOptions:
    """A channel whose owner is U42."""
    usual = ChannelOptions(
        name="sl",
        kind="slack",
        token=Secret(slack.token),
        app_token=Secret(slack.app_token),
        signing_secret=Secret(slack.signing_secret),
        base_url=slack.api_url,
        allow=(ME,),
        approvers=(ME,),
    )
    return replace(usual, **fields)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def by_socket(
    world: World, slack: FakeSlack, *, clock: Clock | None = None, **fields: object
) -> AsyncGenerator[None]:
    """The channel, once its socket is open, until the block ends."""
    async with channel(world, options_for(slack, **fields), clock=clock):
        await slack.world.changed.until(lambda: bool(slack.sockets.open))
        yield


@dataclass(frozen=True, slots=True)
class Front:
    """A server that only takes Slack's calls, and the endpoints through which they reach a channel."""

    server: Served
    endpoints: WebhookEndpoints

    @property
    def fields(self) -> dict[str, object]:
        """What makes a channel one that is called."""
        return {"app_token": "", "webhook_url": self.server.url}


@asynccontextmanager
async def called(slack: FakeSlack) -> AsyncGenerator[Front]:
    """Let Slack call a server from now on; in the end nobody is there."""
    endpoints: asyncio.Future[WebhookEndpoints] = asyncio.get_running_loop().create_future()

    async def hand_over(deps: RouteDeps) -> None:
        endpoints.set_result(deps.singleton(WebhookEndpoints))
        await asyncio.get_running_loop().create_future()

    shown = {"sl": ConfiguredChannel("slack", signing_secret=slack.signing_secret)}
    setting = Setting(options=ServerOptions(features={"channels": shown}), also={"hand over": hand_over})
    async with served(setting=setting) as server:
        slack.hook.url, slack.hook.repeats_s = server.url + PATH, REPEATS_S
        yield Front(server, await endpoints)


@asynccontextmanager
async def by_calls(
    world: World, slack: FakeSlack, *, clock: Clock | None = None, **fields: object
) -> AsyncGenerator[None]:
    """The channel, once it knows who it is, until the block ends."""
    asked = len(slack.world.done("auth.test"))
    async with fronted(world, slack, clock=clock, **fields):
        await slack.world.changed.until(lambda: len(slack.world.done("auth.test")) > asked)
        yield


@asynccontextmanager
async def fronted(
    world: World, slack: FakeSlack, *, clock: Clock | None = None, **fields: object
) -> AsyncGenerator[Front]:
    """The channel and the server that is called for it, until the block ends."""
    async with called(slack) as front:
        options = options_for(slack, **front.fields | fields)
        async with channel(world, options, clock=clock, endpoints=front.endpoints):
            yield front


talking = by_socket
in_both_forms = pytest.mark.parametrize("talking", [by_socket, by_calls])


async def state_of(world: World) -> ChannelState:
    return await channel_state(world.store, LOG)


async def said(slack: FakeSlack, *texts: str, chat: str = MY) -> None:
    """Wait until the bot has said exactly this in the conversation, in this order."""
    conversation = slack.world.conversation(chat)
    await until(slack, lambda: len(conversation.texts()) >= len(texts))
    assert conversation.texts() == list(texts)


async def until(slack: FakeSlack, condition: Callable[[], bool]) -> None:
    await slack.world.changed.until(condition)
