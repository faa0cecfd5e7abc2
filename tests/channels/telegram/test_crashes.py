"""A crash at every append of a talk: nothing is lost, and nothing is silently repeated."""

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest

from agent.world import CrashingStore, process
from channels.lab import LOG, channel, last_user_text, options_for
from holdfast import events as e
from holdfast.channels.channel_log import channel_state
from holdfast.channels.words import MARK
from holdfast.chaos import ChaosServer, Crashed, CrashPoint, Say, SeenRequest
from holdfast.chaos.telegram import FakeTelegram
from holdfast.interfaces.journal import JournalError
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk

CHATS = (42, 43)
ALLOWED = frozenset(map(str, CHATS))
ROUNDS = 2


def echo(request: SeenRequest) -> list[Say]:
    return [Say(f"re: {last_user_text(request)}")]


def is_answered(telegram: FakeTelegram, chat: int, text: str) -> bool:
    return any(one.endswith(f"re: {text}") for one in telegram.world.chat(chat).texts())


async def talk(telegram: FakeTelegram, said: set[tuple[int, str]]) -> None:
    """Each person writes, and writes again once they have their answer."""
    for number in range(ROUNDS):
        for chat in CHATS:
            text = f"{number} of {chat}"
            if (chat, text) not in said:
                said.add((chat, text))
                telegram.world.say(chat, text)
        for chat in CHATS:
            text = f"{number} of {chat}"
            await telegram.world.changed.until(lambda chat=chat, text=text: is_answered(telegram, chat, text))


async def live(
    telegram: FakeTelegram,
    chaos: ChaosServer,
    *,
    disk: MemoryDisk,
    crash: CrashPoint,
    said: set[tuple[int, str]],
    after: bool,
) -> None:
    """One process, until everyone has their answers and all is settled, or until it dies."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=after)
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, store=store) as world, channel(world, options_for(telegram, allow=ALLOWED)):
            talking = asyncio.create_task(talk(telegram, said))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({talking, dead}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done() and not died.is_set():
                settled = asyncio.create_task(until_settled(store))
                await asyncio.wait({settled, dead}, return_when=asyncio.FIRST_COMPLETED)
                settled.cancel()
            for task in (talking, dead):
                task.cancel()
            await asyncio.wait({talking, dead})


async def until_settled(store: MemoryStore) -> None:
    """Wait until the log says that nothing is awaited and nothing is to be sent."""
    async for _ in store.follow(LOG):
        state = await channel_state(store, LOG)
        if not state.awaited and not state.outbox.queues:
            return


async def check(telegram: FakeTelegram, disk: MemoryDisk) -> None:
    """The fake's own record against the logs."""
    store = MemoryStore(disk)
    state = await channel_state(store, LOG)
    accepted: Counter[str] = Counter()
    for session_id in state.chats:
        for record in await store.read(session_id):
            if isinstance(record.event, e.MessageAccepted):
                accepted[record.event.text] += 1
    expected = [f"{number} of {chat}" for number in range(ROUNDS) for chat in CHATS]
    assert accepted == Counter(expected), "one run for each message"
    for chat in CHATS:
        texts = telegram.world.chat(chat).texts()
        unmarked = [text for text in texts if not text.startswith(MARK)]
        assert len(unmarked) == len(set(unmarked)), f"a silent repeat in {texts}"
        order = list(dict.fromkeys(text.removeprefix(MARK).strip() for text in texts))
        assert order == [f"re: {number} of {chat}" for number in range(ROUNDS)], "complete and in order"
    assert {one.state for one in state.outbox.deliveries.values()} == {"confirmed"}


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_message_has_one_run_and_every_reply_arrives_once_or_says_that_it_may_be_a_repeat(
    *, after: bool
) -> None:
    """P14, P6: the process dies at each append in turn; the fake's record is compared with the logs."""
    for nth in count(1):
        disk, said = MemoryDisk(), set[tuple[int, str]]()
        async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
            crash = CrashPoint(nth)
            await live(telegram, chaos, disk=disk, crash=crash, said=said, after=after)
            if crash.has_crashed:
                await live(telegram, chaos, disk=disk, crash=CrashPoint(10**9), said=said, after=after)
            await check(telegram, disk)
        if not crash.has_crashed:
            assert nth > 20
            break
