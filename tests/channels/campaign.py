"""A campaign: people talk to a real server on the fake Telegram while it is killed, again and again.

Each person writes numbered messages, several chats at once; Telegram cuts answers, repeats and reorders
updates, and limits chats. In the end the fake's own record is compared with what was asked. A seed
repeats the damage.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from channels.lab import last_user_text
from holdfast import events as e
from holdfast.channels.channel_log import channel_state
from holdfast.channels.words import MARK
from holdfast.chaos import ChaosServer, Say, Script, SeenRequest
from holdfast.chaos.gates import Notifier
from holdfast.chaos.telegram import (
    Accept,
    Double,
    FakeTelegram,
    ResetConnection,
    Reverse,
    TooManyRequests,
)
from holdfast.journal.sqlite.store import SqliteStore
from runner.program import configure, program

FIRST_CHAT = 1000
RETRY = "/retry"  # what a message about a failure tells people to send
UP_S = 4.0  # at most, before the next kill: a run that is killed too often ends as interrupted
CHANNEL = """
[[channels]]
name = "tg"
kind = "telegram"
token = "{token}"
base_url = "{url}"
allow = [{allow}]
"""


@dataclass(slots=True)
class Campaign:
    """What is asked and what was damaged."""

    chats: int
    messages: int
    seed: int
    kills_max: int
    kills: int = 0
    given_up: int = 0  # replies that arrived, though the server could not find out
    killed: Notifier = field(default_factory=Notifier)
    faults: Counter[str] = field(default_factory=Counter[str])

    @property
    def people(self) -> list[int]:
        """The chats."""
        return [FIRST_CHAT + at for at in range(self.chats)]


def echo(request: SeenRequest) -> Script:
    """The model repeats what it was told last, so that a reply names its message."""
    return [Say(f"re {last_user_text(request)}")]


def first_words(telegram: FakeTelegram, chat: int) -> list[str]:
    """The answers of a chat in order, without marks and repeats."""
    texts = (text.removeprefix(MARK).strip() for text in telegram.world.chat(chat).texts())
    return [text for text in dict.fromkeys(texts) if RETRY not in text]


async def person(telegram: FakeTelegram, chat: int, campaign: Campaign) -> None:
    """Write, wait for the answer, and write again; the kills are spread over the whole conversation."""
    for number in range(campaign.messages):
        due = number * campaign.kills_max // campaign.messages
        await campaign.killed.until(lambda due=due: campaign.kills >= due)
        telegram.world.say(chat, f"{number} of {chat}")
        wanted = f"re {number} of {chat}"
        while wanted not in first_words(telegram, chat):
            seen = len(telegram.world.chat(chat).texts())
            await telegram.world.changed.until(
                lambda wanted=wanted, seen=seen: (
                    wanted in first_words(telegram, chat)
                    or any(RETRY in text for text in telegram.world.chat(chat).texts()[seen:])
                )
            )
            if wanted not in first_words(telegram, chat):
                telegram.world.say(chat, RETRY)  # it was killed so often that the run was given up


async def damage(telegram: FakeTelegram, campaign: Campaign, rng: random.Random) -> None:
    """Let something go wrong with Telegram now and then."""
    faults = {
        "answer lost": ("sendMessage", [Accept(), ResetConnection()]),
        "cut": ("sendMessage", [ResetConnection()]),
        "limit": ("sendMessage", [TooManyRequests(1)]),
        "repeated updates": ("getUpdates", [Double()]),
        "reordered updates": ("getUpdates", [Reverse()]),
        "poll cut": ("getUpdates", [ResetConnection()]),
    }
    while True:
        await asyncio.sleep(rng.uniform(0.5, 4.0))
        name = rng.choice(list(faults))
        method, steps = faults[name]
        if not telegram.scripts.attempts.get(method.lower()):  # they don't pile up while the server is down
            telegram.scripts.add(method, steps)
            campaign.faults[name] += 1


async def campaign_of(campaign: Campaign, folder: Path) -> FakeTelegram:
    """Run it; the fake has the record in the end."""
    rng = random.Random(campaign.seed)
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as model:
        configure(folder, model.base_url, sandbox="off")
        allow = ", ".join(f'"{chat}"' for chat in campaign.people)
        with (folder / "holdfast.toml").open("a", encoding="utf-8") as file:
            file.write(CHANNEL.format(token=telegram.token, url=telegram.url, allow=allow))
        talking = asyncio.gather(*(person(telegram, chat, campaign) for chat in campaign.people))
        damaging = asyncio.create_task(damage(telegram, campaign, rng))
        while not talking.done():
            async with program(folder) as server:
                if campaign.kills == campaign.kills_max:
                    await talking
                with suppress(TimeoutError):
                    async with asyncio.timeout(rng.uniform(0.1, UP_S)):
                        await asyncio.shield(talking)
                if not talking.done():
                    server.process.send_signal(signal.SIGKILL)
                    campaign.kills += 1
                    campaign.killed.notify()
                    await server.process.wait()
        damaging.cancel()
        await talking
        check(telegram, campaign)
        await check_log(folder, campaign)
        return telegram


def check(telegram: FakeTelegram, campaign: Campaign) -> None:
    """Every message has its reply, in order, and no reply came twice without saying so."""
    for chat in campaign.people:
        texts = telegram.world.chat(chat).texts()
        wanted = [f"re {number} of {chat}" for number in range(campaign.messages)]
        assert first_words(telegram, chat) == wanted, f"chat {chat}: {texts}"
        unmarked = Counter(text for text in texts if not text.startswith(MARK))
        assert max(unmarked.values(), default=0) <= 1, f"a silent repeat in chat {chat}: {texts}"


async def check_log(folder: Path, campaign: Campaign) -> None:
    """Every message was accepted once, and everything that was to be said is settled."""
    store = await SqliteStore.open(folder / "data" / "holdfast.db")
    try:
        state = await channel_state(store, "chn_tg")
        accepted: Counter[str] = Counter()
        for session_id in state.chats:
            after = 0
            while records := await store.read(session_id, after=after):
                accepted.update(one.event.text for one in records if isinstance(one.event, e.MessageAccepted))
                after = records[-1].seq
    finally:
        await store.close()
    wanted = {f"{number} of {chat}" for number in range(campaign.messages) for chat in campaign.people}
    assert accepted == Counter(wanted), f"not accepted once: {accepted - Counter(wanted)}"
    campaign.given_up = sum(one.state == "given_up" for one in state.outbox.deliveries.values())


def main() -> None:
    """The campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=20)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    campaign = Campaign(given.chats, given.messages, given.seed, given.kills)
    with tempfile.TemporaryDirectory() as folder:
        telegram = asyncio.run(campaign_of(campaign, Path(folder)))
    marked = sum(
        text.startswith(MARK) for chat in campaign.people for text in telegram.world.chat(chat).texts()
    )
    sys.stdout.write(
        f"seed {campaign.seed}: {campaign.chats * campaign.messages} messages in {campaign.chats} chats, "
        f"{campaign.kills} kills, {sum(campaign.faults.values())} faults {dict(campaign.faults)}: "
        f"every reply arrived, in order; {marked} were marked as possible repeats, none was silent; "
        f"{campaign.given_up} were never confirmed\n"
    )


if __name__ == "__main__":
    main()
