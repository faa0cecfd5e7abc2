"""A crash at every append to a channel on Discord: nothing is lost, and nothing is repeated."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from agent.world import World, process
from fakes.discord import FakeDiscord
from features.channels.crash_lab import (
    MortalStore,
    UntilShown,
    accepted_in,
    lives,
    states_in,
    until_settled,
)
from features.channels.discord.lab import LOG, options_for, starting, texts
from features.channels.lab import last_user_text
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.channel_log import channel_state
from holdfast.journal.memory_disk import MemoryDisk
from stores import MemoryStore

ROUNDS = ((42, 43), (42,))  # who writes, before anyone writes again
PEOPLE = ROUNDS[0]
ALLOWED = frozenset(map(str, PEOPLE))
FORGOTTEN = 3  # of so many sessions, one can't be resumed


def previewed(discord: FakeDiscord, request: SeenRequest) -> Script:
    """An answer that is shown while it is being written."""
    text = last_user_text(request)
    number, _, user = text.split(" ")
    shown = UntilShown(discord.world.changed, lambda: len(texts(discord, int(user))) > int(number))
    return [Say("re: "), shown, Say(text)]


@asynccontextmanager
async def chatting(discord: FakeDiscord, chaos: ChaosServer, store: MortalStore) -> AsyncGenerator[World]:
    """A process with the channel."""
    options = options_for(discord, allow=ALLOWED)
    async with (
        process(chaos, store=store) as world,
        starting(world, options, clock=store.clock, preview_after_s=0.0),
    ):
        yield world


async def talk(discord: FakeDiscord, said: set[tuple[int, str]], store: MemoryStore) -> None:
    """Each person writes once the bot is there, and again once they have their answer, no preview of it."""
    world = discord.world
    await world.changed.until(lambda: bool(world.sessions.known))
    for number, people in enumerate(ROUNDS):
        for user in people:
            text = f"{number} of {user}"
            if (user, text) not in said:
                said.add((user, text))
                world.say(world.direct(user), text)
        for user in people:
            text = f"re: {number} of {user}"
            await world.changed.until(lambda user=user, text=text: text in texts(discord, user))
        await until_settled(store, LOG)


async def check(discord: FakeDiscord, disk: MemoryDisk) -> None:
    """The fake's own record against the logs."""
    expected = [f"{number} of {user}" for number, people in enumerate(ROUNDS) for user in people]
    assert await accepted_in(disk, LOG) == Counter(expected), "one run for each message"
    for user in PEOPLE:
        wanted = [f"re: {number} of {user}" for number, people in enumerate(ROUNDS) if user in people]
        assert texts(discord, user) == wanted, "each once, and in order"
    assert await states_in(disk, LOG) <= {"confirmed", "moot"}


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_message_has_one_run_and_every_reply_arrives_exactly_once(*, after: bool) -> None:
    """P14, P6: the process dies at each append in turn; Discord can be asked, so nothing is even marked."""
    for nth, life in enumerate(lives(after=after, log=LOG, at_least=10)):
        async with FakeDiscord() as discord, ChaosServer(choose=partial(previewed, discord)) as chaos:
            chat, talked = partial(chatting, discord, chaos), partial(talk, discord, set[tuple[int, str]]())
            await life.lived(chat, talked)
            known = (await channel_state(MemoryStore(life.disk), LOG)).last_taken
            if nth % FORGOTTEN == 0 and len(known) == len(PEOPLE):
                discord.world.sessions.forget()  # at times the history is read instead
            await life.lived_again(chat, talked)
            await check(discord, life.disk)
