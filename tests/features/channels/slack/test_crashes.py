"""A crash at every append of a talk in Slack: nothing is lost, repeated, or left half-said."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from agent.world import World, process
from fakes.crash import Crashed
from fakes.slack import FakeSlack
from features.channels.crash_lab import (
    PREVIEW_BEAT_S,
    MortalStore,
    UntilShown,
    accepted_in,
    lives,
    states_in,
    until_settled,
)
from features.channels.lab import deps_of, last_user_text, running
from features.channels.slack.slack_lab import LOG, called, options_for
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.http.webhook_endpoints import NotNow, WebhookEndpoints
from holdfast.features.channels.texts import MARK
from holdfast.journal.memory_disk import MemoryDisk
from stores import MemoryStore

CHAT = "D42"
ALLOWED = frozenset({"U42"})
ROUNDS = 2


def previewed(slack: FakeSlack, request: SeenRequest) -> Script:
    """An answer that is shown while it is being written."""
    text = last_user_text(request)
    number, texts = int(text.split(" ")[0]), slack.world.conversation(CHAT).texts
    return [Say("re: "), UntilShown(slack.world.changed, lambda: len(texts()) > number), Say(text)]


@dataclass(slots=True)
class Scene:
    """What outlives a process: Slack, the model, and how Slack tells what happens."""

    slack: FakeSlack
    chaos: ChaosServer
    is_called: bool
    said: set[str] = field(default_factory=set[str])
    asked: int = 0  # how often the processes before this one asked who they are

    @asynccontextmanager
    async def chatting(self, store: MortalStore) -> AsyncGenerator[World]:
        """A process with the channel."""
        self.asked = len(self.slack.world.done("auth.test"))
        async with process(self.chaos, store=store) as world, self._options() as (options, endpoints):
            usual = deps_of(world, store.clock, endpoints=endpoints)
            deps = replace(usual, preview_after_s=0.0, preview_beat_s=PREVIEW_BEAT_S)
            async with running(deps, options):
                yield world

    @asynccontextmanager
    async def _options(self) -> AsyncGenerator[tuple[ChannelOptions, WebhookEndpoints]]:
        """The settings of a process, and the endpoints through which it is called."""
        if not self.is_called:
            yield options_for(self.slack, allow=ALLOWED), WebhookEndpoints()
            return
        endpoints = WebhookEndpoints()

        async def deliver(body: bytes) -> msgspec.Struct | None:
            """Pass it on to the process; what that dies of isn't the end of the server before it."""
            inside = endpoints.get("sl")
            if inside is None:
                raise NotNow
            try:
                return await inside(body)
            except (Crashed, BaseExceptionGroup):
                raise NotNow from None

        async with called(self.slack) as front:
            with front.endpoints.opened("sl", deliver):
                yield options_for(self.slack, allow=ALLOWED, **front.fields), endpoints

    def _is_heard(self) -> bool:
        """Whether what people write arrives."""
        asked = len(self.slack.world.done("auth.test"))
        return asked > self.asked if self.is_called else bool(self.slack.sockets.open)

    async def talk(self, store: MemoryStore) -> None:
        """A person writes, and writes again once they have their answer, and not only a preview of it."""
        world = self.slack.world
        await world.changed.until(self._is_heard)
        for number in range(ROUNDS):
            text = f"{number} of {CHAT}"
            if text not in self.said:
                self.said.add(text)
                world.say(CHAT, text)
            await world.changed.until(lambda text=text: f"re: {text}" in world.conversation(CHAT).texts())
            await until_settled(store, LOG)

    async def write_again(self, disk: MemoryDisk) -> None:
        """If Slack has forgotten someone's first words, let them write again.

        Slack notices a moment later that a process is gone, and forgets then what it could not tell it.
        """
        sockets = self.slack.sockets
        await self.slack.world.changed.until(
            lambda: not sockets.open and all(one.told for one in sockets.waiting.values())
        )
        if self.slack.lost and not (await channel_state(MemoryStore(disk), LOG)).last_taken:
            self.said.clear()

    async def check(self, disk: MemoryDisk) -> None:
        """The fake's own record against the logs."""
        assert await accepted_in(disk, LOG) == Counter(f"{number} of {CHAT}" for number in range(ROUNDS))
        texts = self.slack.world.conversation(CHAT).texts()
        assert not any(MARK in text for text in texts)
        assert texts == [f"re: {number} of {CHAT}" for number in range(ROUNDS)], "once and in order"
        assert await states_in(disk, LOG) <= {"confirmed", "moot"}


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
    log, at_least = (LOG, 10) if is_called else ("", 20)
    for life in lives(after=after, log=log, at_least=at_least):
        async with FakeSlack(ack_s=5.0) as slack, ChaosServer(choose=partial(previewed, slack)) as chaos:
            scene = Scene(slack, chaos, is_called)
            await life.lived(scene.chatting, scene.talk)
            if life.crash.has_crashed:
                await scene.write_again(life.disk)
            await life.lived_again(scene.chatting, scene.talk)
            await scene.check(life.disk)
            previews += len(slack.world.done("chat.update"))
    assert previews, "answers took the place of previews"
