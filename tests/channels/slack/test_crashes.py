"""A crash at every append of a talk in Slack: nothing is lost, repeated, or left half-said."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NoReturn

import msgspec
import pytest

from agent.world import CrashingStore, process
from channels.lab import deps_of, last_user_text
from channels.slack.slack_lab import LOG, called, options_for
from holdfast import events as e
from holdfast.channels.channel_log import channel_state
from holdfast.channels.deps import ChannelOptions
from holdfast.channels.service import Channels
from holdfast.channels.words import MARK
from holdfast.chaos import ChaosServer, Crashed, CrashPoint, Pause, Say, Script, SeenRequest
from holdfast.chaos.slack import FakeSlack
from holdfast.interfaces.journal import JournalError
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.racing import wait_through_cancel
from holdfast.server.channels.doors import ChannelDoors, NotNow

CHATS = ("D42",)
ALLOWED = frozenset({"U42"})
ROUNDS = 2


def slowly(request: SeenRequest) -> Script:
    """Speaks for long enough that a preview is shown."""
    return [Say("re: "), Pause(0.1), Say(last_user_text(request))]


async def talk(slack: FakeSlack, store: MemoryStore, said: set[tuple[str, str]]) -> None:
    """Each person writes, and writes again once they have their answer, and not only a preview of it."""
    for number in range(ROUNDS):
        texts = {chat: f"{number} of {chat}" for chat in CHATS}
        for chat, text in texts.items():
            if (chat, text) not in said:
                said.add((chat, text))
                slack.world.say(chat, text)
        for chat, text in texts.items():
            conversation = slack.world.conversation(chat)
            await slack.world.changed.until(
                lambda conversation=conversation, text=text: f"re: {text}" in conversation.texts()
            )
        await until_settled(store)


@dataclass(frozen=True, slots=True)
class Scene:
    """What outlives a process: Slack, the model, and how Slack tells what happens."""

    slack: FakeSlack
    chaos: ChaosServer
    is_called: bool
    said: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    @asynccontextmanager
    async def options(self) -> AsyncGenerator[tuple[ChannelOptions, ChannelDoors]]:
        """The settings of a process, and the doors through which it is called."""
        if not self.is_called:
            yield options_for(self.slack, allow=ALLOWED), ChannelDoors()
            return
        doors = ChannelDoors()

        async def deliver(body: bytes) -> msgspec.Struct | None:
            """Pass it on to the process; what that dies of isn't the end of the server before it."""
            inside = doors.get("sl")
            if inside is None:
                raise NotNow
            try:
                return await inside(body)
            except (Crashed, BaseExceptionGroup):
                raise NotNow from None

        async with called(self.slack) as front:
            with front.doors.opened("sl", deliver):
                yield options_for(self.slack, allow=ALLOWED, **front.fields), doors

    async def is_heard(self, asked: int) -> None:
        """Wait until what people write arrives."""
        world = self.slack.world
        await world.changed.until(
            lambda: bool(self.slack.sockets.open) or (self.is_called and len(world.done("auth.test")) > asked)
        )


async def live(scene: Scene, store: CrashingStore, *, crash: CrashPoint) -> None:
    """One process, until everyone has their answers and all is settled, or until it dies."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(scene.chaos, store=store) as world, scene.options() as (options, doors):
            asked = len(scene.slack.world.done("auth.test"))
            deps = replace(
                deps_of(world, doors=doors), settles_s=0.02, preview_after_s=0.0, preview_beat_s=0.05
            )
            running = asyncio.create_task(Channels(deps, [options]).run())
            try:
                dead = asyncio.create_task(died.wait())
                whole = asyncio.create_task(whole_talk(scene, store, asked))
                await asyncio.wait({whole, dead}, return_when=asyncio.FIRST_COMPLETED)
                for task in (whole, dead):
                    task.cancel()
                await asyncio.wait({whole, dead})
            finally:
                running.cancel()
                await wait_through_cancel(running)


async def whole_talk(scene: Scene, store: MemoryStore, asked: int) -> None:
    await scene.is_heard(asked)
    await talk(scene.slack, store, scene.said)


async def until_known_what_is_lost(slack: FakeSlack) -> None:
    """Slack notices a moment later that a process is gone, and forgets then what it could not tell it."""
    sockets = slack.sockets
    await slack.world.changed.until(
        lambda: not sockets.open and all(one.told for one in sockets.waiting.values())
    )


async def until_settled(store: MemoryStore) -> None:
    """Wait until the log says that nothing is awaited and nothing is to be sent."""
    async for _ in store.follow(LOG):
        state = await channel_state(store, LOG)
        if not state.awaited and not state.outbox.queues:
            return


async def check(slack: FakeSlack, disk: MemoryDisk) -> None:
    """The fake's own record against the logs."""
    store = MemoryStore(disk)
    state = await channel_state(store, LOG)
    accepted: Counter[str] = Counter()
    for session_id in state.chats:
        for record in await store.read(session_id):
            if isinstance(record.event, e.MessageAccepted):
                accepted[record.event.text] += 1
    assert accepted == Counter(f"{number} of {chat}" for number in range(ROUNDS) for chat in CHATS)
    for chat in CHATS:
        texts = slack.world.conversation(chat).texts()
        assert not any(MARK in text for text in texts)
        assert texts == [f"re: {number} of {chat}" for number in range(ROUNDS)], "once and in order"
    assert {one.state for one in state.outbox.deliveries.values()} <= {"confirmed", "moot"}


@pytest.mark.long
@pytest.mark.parametrize("is_called", [False, True], ids=["socket", "calls"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_message_has_one_run_and_every_reply_is_there_exactly_once(
    *, after: bool, is_called: bool
) -> None:
    """P14, P6, P9: the process dies at each append in turn; no reply is repeated or marked.

    No preview stays, either. Slack itself forgets the first words in a conversation that nobody knows yet;
    whoever said them writes again.
    """
    previews = 0
    for nth in count(1):
        disk = MemoryDisk()
        async with FakeSlack(ack_s=5.0) as slack, ChaosServer(choose=slowly) as chaos:
            crash, scene = CrashPoint(nth), Scene(slack, chaos, is_called)
            await live(scene, CrashingStore(disk, crash, after=after), crash=crash)
            if crash.has_crashed:
                await until_known_what_is_lost(slack)
                lost = {one.payload["event"]["channel"] for one in slack.lost}
                known = (await channel_state(MemoryStore(disk), LOG)).last_taken
                for chat in lost - set(known):  # a person whose first words are lost writes again
                    scene.said.difference_update([one for one in scene.said if one[0] == chat])
                healthy = CrashPoint(10**9)
                await live(scene, CrashingStore(disk, healthy, after=after), crash=healthy)
            await check(slack, disk)
            previews += len(slack.world.done("chat.update"))
        if not crash.has_crashed:
            assert nth > 20
            break
    assert previews, "answers took the place of previews"
