"""A crash at every append of a talk on Discord: nothing is lost, and nothing is repeated."""

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest

from agent.world import CrashingStore, process
from channels.discord.lab import LOG, options_for, starting
from channels.telegram.test_crashes import echo
from holdfast import events as e
from holdfast.channels.channel_log import channel_state
from holdfast.chaos import ChaosServer, Crashed, CrashPoint
from holdfast.chaos.discord import FakeDiscord
from holdfast.interfaces.journal import JournalError
from holdfast.journal.memory import MemoryStore
from holdfast.journal.memory_disk import MemoryDisk

PEOPLE = (42, 43)
ALLOWED = frozenset(map(str, PEOPLE))
ROUNDS = 2
FORGOTTEN = 7  # of so many sessions, one can't be resumed


def is_answered(discord: FakeDiscord, user: int, text: str) -> bool:
    return f"re: {text}" in discord.world.direct(user).texts()


async def talk(discord: FakeDiscord, store: MemoryStore, said: set[tuple[int, str]]) -> None:
    """Each person writes once the bot is there, and again once they have their answer, no preview of it."""
    world = discord.world
    await world.changed.until(lambda: bool(world.sessions.known))
    for number in range(ROUNDS):
        for user in PEOPLE:
            text = f"{number} of {user}"
            if (user, text) not in said:
                said.add((user, text))
                world.say(world.direct(user), text)
        for user in PEOPLE:
            text = f"{number} of {user}"
            await world.changed.until(lambda user=user, text=text: is_answered(discord, user, text))
        await until_settled(store)


async def live(
    discord: FakeDiscord,
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
        async with (
            process(chaos, store=store) as world,
            starting(world, options_for(discord, allow=ALLOWED), preview_after_s=0.0),
        ):
            talking = asyncio.create_task(talk(discord, store, said))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({talking, dead}, return_when=asyncio.FIRST_COMPLETED)
            for task in (talking, dead):
                task.cancel()
            await asyncio.wait({talking, dead})


async def until_settled(store: MemoryStore) -> None:
    """Wait until the log says that nothing is awaited and nothing is to be sent."""
    async for _ in store.follow(LOG):
        state = await channel_state(store, LOG)
        if not state.awaited and not state.outbox.queues:
            return


async def check(discord: FakeDiscord, disk: MemoryDisk) -> None:
    """The fake's own record against the logs."""
    store = MemoryStore(disk)
    state = await channel_state(store, LOG)
    accepted: Counter[str] = Counter()
    for session_id in state.chats:
        for record in await store.read(session_id):
            if isinstance(record.event, e.MessageAccepted):
                accepted[record.event.text] += 1
    expected = [f"{number} of {user}" for number in range(ROUNDS) for user in PEOPLE]
    assert accepted == Counter(expected), "one run for each message"
    for user in PEOPLE:
        texts = discord.world.direct(user).texts()
        assert texts == [f"re: {number} of {user}" for number in range(ROUNDS)], "each once, and in order"
    assert {one.state for one in state.outbox.deliveries.values()} <= {"confirmed", "moot"}


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_every_message_has_one_run_and_every_reply_arrives_exactly_once(*, after: bool) -> None:
    """P14, P6: the process dies at each append in turn; Discord can be asked, so nothing is even marked."""
    for nth in count(1):
        disk, said = MemoryDisk(), set[tuple[int, str]]()
        async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos:
            crash = CrashPoint(nth)
            await live(discord, chaos, disk=disk, crash=crash, said=said, after=after)
            known = (await channel_state(MemoryStore(disk), LOG)).last_taken
            if nth % FORGOTTEN == 0 and len(known) == len(PEOPLE):
                discord.world.sessions.forget()  # at times the history is read instead
            if crash.has_crashed:
                await live(discord, chaos, disk=disk, crash=CrashPoint(10**9), said=said, after=after)
            await check(discord, disk)
        if not crash.has_crashed:
            assert nth > 20
            break
