"""A channel in a process of its own, the fake Telegram outside of it, and people who write there."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace
from typing_extensions import override

from agent.world import World
from fakes.telegram import FakeTelegram
from holdfast import events as e
from holdfast.chaos import CallTool, Say, Script, SeenRequest
from holdfast.config.fields import Secret
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.configured import Channels, configured_channel
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.events import (
    ChannelChatBound,
)
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.features.channels.state import ChannelState
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.system_clock import SystemClock
from holdfast.racing import wait_through_cancel
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ServerOptions
from runner.steered_clock import SteeredClock, settle
from serving import Setting

ME = 42
LOG = "chn_tg"
SETTLES_S = 0.05
LONG_S = 3_600.0
LEAP_S = 0.01
QUICK = PostgresTuning(lease_s=2.0, beat_s=0.3)  # of a database that nodes share


def options_for(telegram: FakeTelegram, **fields: object) -> ChannelOptions:
    """A channel whose owner has the id 42."""
    usual = ChannelOptions(
        name="tg",
        kind="telegram",
        token=Secret(telegram.token),
        base_url=telegram.url,
        allow=(str(ME),),
        approvers=(str(ME),),
    )
    return replace(usual, **fields)  # pyright: ignore[reportArgumentType]


class LeapingClock(SystemClock):
    """The computer's clock, except that it leaps to the end of a short pause, such as the first back-off.

    Longer pauses are kept to: those of a loop would make time race.
    """

    def __init__(self, leapt_s_max: float = 1.5) -> None:
        self._leapt_s_max = leapt_s_max
        self._ahead_s = 0.0

    @override
    def now_ms(self) -> int:
        return super().now_ms() + int(1000 * self._ahead_s)

    @override
    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s

    @override
    def steady_s(self) -> float:
        return super().steady_s() + self._ahead_s

    @override
    async def sleep_s(self, seconds: float) -> None:
        until_s = self.steady_s() + seconds
        await super().sleep_s(min(seconds, LEAP_S) if seconds <= self._leapt_s_max else seconds)
        self._ahead_s += max(0.0, until_s - self.steady_s())


def deps_of(
    world: World, clock: Clock | None = None, *, endpoints: WebhookEndpoints | None = None
) -> ChannelDeps:
    """What channels need. Unless a test steers the clock, no chat shows previews, and pauses are short."""
    after_s, beat_s = (2.0, 1.0) if isinstance(clock, SteeredClock) else (LONG_S, LONG_S)
    return ChannelDeps(
        endpoints=endpoints or WebhookEndpoints(),
        store=world.store,
        clock=clock or LeapingClock(),
        settles_s=SETTLES_S,
        preview_after_s=after_s,
        preview_beat_s=beat_s,
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
            endpoints=deps.singleton(WebhookEndpoints),
        )
        await Channels(channel_deps, [replace(one, webhook_url=webhook_url) for one in options]).run()

    shown = {
        one.name: configured_channel(replace(one, webhook_url="https://known-later.example"))
        for one in options
    }
    return Setting(options=ServerOptions(features={"channels": shown}), also={"channels": work})


@asynccontextmanager
async def channel(
    world: World,
    options: ChannelOptions,
    *,
    clock: Clock | None = None,
    endpoints: WebhookEndpoints | None = None,
) -> AsyncGenerator[asyncio.Task[None]]:
    """The channels of a server, until the block ends."""
    async with running(deps_of(world, clock, endpoints=endpoints), options) as task:
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


async def approval_of(world: World, log_id: str) -> str:
    """The id of what is asked, once it is asked in the channel's only session."""
    records = await world.until(log_id, ChannelChatBound)
    (session_id,) = [one.event.session_id for one in records if isinstance(one.event, ChannelChatBound)]
    events = [one.event for one in await world.until(session_id, e.ApprovalAsked)]
    return next(one.approval_id for one in events if isinstance(one, e.ApprovalAsked))


async def forward(clock: SteeredClock, condition: Callable[[], bool]) -> None:
    """Let time pass until the condition holds, but only while the channel waits for it."""
    while not condition():
        await settle()
        if clock.next_s is not None:
            clock.advance(clock.next_s)


def last_user_text(request: SeenRequest) -> str:
    """What the model was told last by a person."""
    found = [one for one in (request.body or {})["messages"] if one["role"] == "user"]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportGeneralTypeIssues]
    return str(found[-1]["content"])  # pyright: ignore[reportUnknownArgumentType]


def echo(request: SeenRequest) -> Script:
    """The model repeats what it was told."""
    return [Say(f"re: {last_user_text(request)}")]


def acts(request: SeenRequest) -> Script:
    """Acts once, asks for a colour if told so, and then says what came of it."""
    messages = (request.body or {})["messages"]
    results = [one for one in messages if one["role"] == "tool"]  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues]
    if not results:
        wants_colour = last_user_text(request).endswith("colour")
        return [
            CallTool("ask_user", {"text": "which?", "choices": ["red", "blue"]})
            if wants_colour
            else CallTool("act")
        ]
    return [Say(f"result: {results[-1]['content']}")]  # pyright: ignore[reportUnknownMemberType]


def acting(request: SeenRequest, args: dict[str, object]) -> Script:
    """Acts once, and then says that it is done."""
    messages = (request.body or {})["messages"]
    results = [one for one in messages if one["role"] == "tool"]  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues]
    return [Say("well")] if results else [CallTool("act", args)]


def file_then_words(request: SeenRequest) -> Script:
    """The model sends a file, and once that is done it says so."""
    if "is being sent to the chat" in str(request.body):
        return [Say("there you are")]
    return [CallTool("send_file", {"path": "a.txt", "caption": "notes"})]
