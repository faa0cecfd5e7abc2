"""A Slack channel in a process of its own, the fake Slack outside of it, and people who write there."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from agent.world import World
from channels.lab import channel, last_user_text
from holdfast.channels.channel_log import channel_state
from holdfast.channels.deps import ChannelOptions
from holdfast.chaos import Say, Script, SeenRequest
from holdfast.chaos.slack import FakeSlack
from holdfast.folds.channel import ChannelState
from holdfast.interfaces.clock import Clock

ME, MY = "U42", "D42"  # a person, and their direct conversation with the bot
LOG = "chn_sl"


def options_for(slack: FakeSlack, **fields: object) -> ChannelOptions:
    """A channel whose owner is U42."""
    usual = ChannelOptions(
        name="sl",
        kind="slack",
        token=slack.token,
        app_token=slack.app_token,
        base_url=slack.api_url,
        allow=frozenset({ME}),
        approvers=frozenset({ME}),
    )
    return replace(usual, **fields)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def talking(
    world: World, slack: FakeSlack, *, clock: Clock | None = None, **fields: object
) -> AsyncGenerator[None]:
    """The channel, once its socket is open, until the block ends."""
    async with channel(world, options_for(slack, **fields), clock=clock):
        await slack.world.changed.until(lambda: bool(slack.sockets.open))
        yield


async def state_of(world: World) -> ChannelState:
    return await channel_state(world.store, LOG)


async def said(slack: FakeSlack, *texts: str, chat: str = MY) -> None:
    """Wait until the bot has said exactly this in the conversation, in this order."""
    conversation = slack.world.conversation(chat)
    await until(slack, lambda: len(conversation.texts()) >= len(texts))
    assert conversation.texts() == list(texts)


async def until(slack: FakeSlack, condition: Callable[[], bool]) -> None:
    await slack.world.changed.until(condition)


def echo(request: SeenRequest) -> Script:
    return [Say(f"re: {last_user_text(request)}")]
