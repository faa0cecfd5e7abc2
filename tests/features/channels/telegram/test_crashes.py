"""A crash at every append of a talk: nothing is lost, and nothing is silently repeated."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from agent.world import World, process
from fakes.telegram import FakeTelegram
from features.channels.crash_lab import MortalStore, accepted_in, lives, states_in, until_settled
from features.channels.lab import LOG, channel, echo, options_for
from holdfast.chaos import ChaosServer
from holdfast.features.channels.texts import MARK
from holdfast.journal.memory_disk import MemoryDisk
from stores import MemoryStore

ROUNDS = ((42, 43), (42,))  # who writes, before anyone writes again
CHATS = ROUNDS[0]
ALLOWED = frozenset(map(str, CHATS))


def is_answered(telegram: FakeTelegram, chat: int, text: str) -> bool:
    return any(one.endswith(f"re: {text}") for one in telegram.world.chat(chat).texts())


@asynccontextmanager
async def chatting(telegram: FakeTelegram, chaos: ChaosServer, store: MortalStore) -> AsyncGenerator[World]:
    """A process with the channel."""
    options = options_for(telegram, allow=ALLOWED)
    async with process(chaos, store=store) as world, channel(world, options, clock=store.clock):
        yield world


async def talk(telegram: FakeTelegram, said: set[tuple[int, str]], store: MemoryStore) -> None:
    """Each person writes, and writes again once they have their answer."""
    for number, chats in enumerate(ROUNDS):
        texts = {chat: f"{number} of {chat}" for chat in chats}
        for chat, text in texts.items():
            if (chat, text) not in said:
                said.add((chat, text))
                telegram.world.say(chat, text)
        for chat, text in texts.items():
            await telegram.world.changed.until(lambda chat=chat, text=text: is_answered(telegram, chat, text))
    await until_settled(store, LOG)


async def check(telegram: FakeTelegram, disk: MemoryDisk) -> None:
    """The fake's own record against the logs."""
    expected = [f"{number} of {chat}" for number, chats in enumerate(ROUNDS) for chat in chats]
    assert await accepted_in(disk, LOG) == Counter(expected), "one run for each message"
    for chat in CHATS:
        texts = telegram.world.chat(chat).texts()
        unmarked = [text for text in texts if not text.startswith(MARK)]
        assert len(unmarked) == len(set(unmarked)), f"a silent repeat in {texts}"
        order = list(dict.fromkeys(text.removeprefix(MARK).strip() for text in texts))
        wanted = [f"re: {number} of {chat}" for number, chats in enumerate(ROUNDS) if chat in chats]
        assert order == wanted, "complete and in order"
    assert await states_in(disk, LOG) == {"confirmed"}


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_message_has_one_run_and_every_reply_arrives_once_or_says_that_it_may_be_a_repeat(
    *, after: bool
) -> None:
    """P14, P6: the process dies at each append in turn; the fake's record is compared with the logs."""
    for life in lives(after=after, at_least=20):
        async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
            chat, talked = partial(chatting, telegram, chaos), partial(talk, telegram, set[tuple[int, str]]())
            await life.lived(chat, talked)
            await life.lived_again(chat, talked)
            await check(telegram, life.disk)
