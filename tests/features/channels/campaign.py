"""A campaign: people talk to a real server on fake platforms while it is killed, again and again.

Each person writes numbered messages, several chats at once; the platforms cut answers and sockets, repeat
and reorder what they tell, and limit chats. In the end the fakes' own records are compared with what was
asked. A seed repeats the damage.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path

import aiohttp

from features.channels.lab import last_user_text
from features.channels.sides import SIDES, Side, without_mark
from holdfast import events as e
from holdfast.chaos import ChaosServer, Pause, Say, Script, SeenRequest
from holdfast.chaos.gates import Notifier
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.owner import UNCLEAR, loss_notices
from holdfast.features.channels.texts import MARK
from holdfast.interfaces.ids import channel_log_id, derived_session_id
from runner.program import Program, configure, program
from serving import frames_in
from stores import SqliteStore

FIRST_CHAT = 1000
UP_S = 4.0  # at most, before the next kill: a run that is killed too often ends as interrupted
AGAIN_S = 0.2  # before a server is asked again that gave no answer
SLOW_S = 2.2  # how long some answers take, so that they are previewed where previews are messages
PARTIAL = frozenset({"re", "…"})  # what is shown of an answer that is still being written


@dataclass(slots=True)
class Campaign:
    """What is asked and what was damaged."""

    chats: int
    messages: int
    seed: int
    kills_max: int
    platforms: Sequence[str] = ("telegram",)
    within_s: float = 900.0
    kills: int = 0
    given_up: int = 0  # deliveries that were never confirmed; their chats are told
    awaits: dict[str, str] = field(default_factory=dict[str, str])  # what each person waits for, in words
    server: Program | None = None  # the one that runs now
    changed: Notifier = field(default_factory=Notifier)  # another server runs, or none does
    faults: Counter[str] = field(default_factory=Counter[str])

    @property
    def people(self) -> list[int]:
        """The chats on each platform."""
        return [FIRST_CHAT + at for at in range(self.chats)]


def echo(request: SeenRequest) -> Script:
    """The model repeats what it was told last, so that a reply names its message; at times it takes long."""
    text = last_user_text(request)
    words = [Say("re "), Pause(SLOW_S)] if text.startswith(("1 ", "3 ")) else [Say("re ")]
    return [*words, Say(text)]


def first_words(side: Side, chat: int) -> list[str]:
    """The answers of a chat in order, without marks and repeats, and without what is still being written."""
    texts = (without_mark(text) for text in side.texts(chat))
    others = PARTIAL | {UNCLEAR}
    return [text for text in dict.fromkeys(texts) if side.retry not in text and text not in others]


def failures(side: Side, chat: int) -> int:
    """How many messages in a chat say that a run failed."""
    return sum(side.retry in text for text in side.texts(chat))


async def person(side: Side, chat: int, numbers: range, campaign: Campaign) -> None:
    """Write, wait for the answer, and write again; the kills are spread over the whole conversation."""
    for number in numbers:
        due = number * campaign.kills_max // (campaign.messages - 1)  # all, before the last message
        await campaign.changed.until(lambda due=due: campaign.kills >= due)
        await say(side, chat, f"{number} of {chat}", campaign)


async def say(side: Side, chat: int, text: str, campaign: Campaign) -> None:
    """Write once, and wait until it has its answer."""

    def is_answered() -> bool:
        return f"re {text}" in first_words(side, chat)

    def has_failed(times: int) -> bool:
        return failures(side, chat) >= before + times

    before, who = failures(side, chat), f"{chat} on {side.name}"
    campaign.awaits[who] = f"an answer to {text!r}"
    side.say(chat, text)
    for nth in count(1):
        await side.changed.until(lambda nth=nth: is_answered() or has_failed(nth))
        campaign.awaits[who] = f"the end of run {nth} about {text!r}"
        # It may be a preview that has all the words. What is said before the run ends is said to that run.
        if await outcome(side, chat, text, campaign, nth=nth) == "completed":
            campaign.awaits[who] = f"the whole answer to {text!r}"
            await side.changed.until(is_answered)
            return
        campaign.awaits[who] = f"that run {nth} about {text!r} is said to have failed"
        await side.changed.until(lambda nth=nth: has_failed(nth))
        if is_answered():
            return
        side.say(chat, side.retry)  # it was killed so often that the run was given up


async def outcome(side: Side, chat: int, text: str, campaign: Campaign, *, nth: int) -> str:
    """How the nth run about a message ended, from whichever server lives to tell it."""
    session_id = derived_session_id(channel_log_id(side.name), side.chat(chat), "1")
    while True:
        await campaign.changed.until(lambda: campaign.server is not None)
        server = campaign.server
        assert server is not None
        with suppress(aiohttp.ClientError):  # it is killed
            if ended := await told_outcome(server, session_id, text, nth):
                return ended
        await asyncio.sleep(AGAIN_S)  # an idle connection may also have ended while the server lives on


async def told_outcome(server: Program, session_id: str, text: str, nth: int) -> str:
    """How the nth run about a message ended; empty if the server ends before."""
    is_asked, endings = False, 0
    async with server.http.get(f"{server.url}/api/sessions/{session_id}/events") as answer:
        assert answer.status == HTTPStatus.OK, await answer.text()
        async for frame in frames_in(answer.content):
            kind = frame.data["type"]
            is_asked = is_asked or (kind == "message.accepted" and frame.data["text"] == text)
            endings += is_asked and kind == "run.ended"
            if endings == nth:
                return str(frame.data["outcome"])
    return ""


async def damage(side: Side, campaign: Campaign) -> None:
    """Let something go wrong with the platform now and then, as long as there are kills.

    A delivery that fails again and again waits longer each time, up to minutes.
    """
    rng = random.Random(f"{campaign.seed} {side.name}")
    while campaign.kills < campaign.kills_max:
        await asyncio.sleep(rng.uniform(0.5, 4.0))
        name = rng.choice(list(side.faults))
        method, steps = side.faults[name]
        if not side.scripts.attempts.get(method.lower()):  # they don't pile up while the server is down
            side.scripts.add(method, steps)
            campaign.faults[f"{side.name}: {name}"] += 1


@asynccontextmanager
async def running(folder: Path, campaign: Campaign) -> AsyncGenerator[Program]:
    """A server that everyone can ask, until it is killed."""
    async with program(folder) as server:
        campaign.server = server
        campaign.changed.notify()
        yield server
        campaign.server = None
        campaign.changed.notify()


async def campaign_of(campaign: Campaign, folder: Path) -> Sequence[Side]:
    """Run it; the fakes have the record in the end."""
    sides = [SIDES[platform]() for platform in campaign.platforms]
    try:
        async with asyncio.timeout(campaign.within_s):
            await talked_through(sides, campaign, folder)
    except TimeoutError as error:
        waiting = [f"{who} awaits {what}" for who, what in campaign.awaits.items()]
        there = [f"{side.name} has {side.texts(chat)}" for side in sides for chat in campaign.people]
        raise AssertionError("\n".join(["it didn't end in time", *waiting, *there])) from error
    for side in sides:
        check(side, campaign)
        await check_log(folder, campaign, side)
    return sides


@asynccontextmanager
async def open_world(sides: Sequence[Side], campaign: Campaign, folder: Path) -> AsyncGenerator[None]:
    """The platforms and the model, and the settings of a server with a channel on each platform."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ChaosServer(choose=echo))
        port = next((side.port for side in sides if side.port), 0)
        for side in sides:  # they call the same server
            side.port = port
        configure(folder, model.base_url, sandbox="off", server=f"port = {port}")
        for side in sides:
            await stack.enter_async_context(side.server())
            with (folder / "holdfast.toml").open("a", encoding="utf-8") as file:
                file.write(side.settings(campaign.people))
        yield


async def talked_through(sides: Sequence[Side], campaign: Campaign, folder: Path) -> None:
    """All messages, kills and faults, until everyone has their answers."""
    rng = random.Random(campaign.seed)
    chats = [(side, chat) for side in sides for chat in campaign.people]
    async with open_world(sides, campaign, folder):
        async with running(folder, campaign):  # everyone is known before the first kill
            for side in sides:
                await side.changed.until(side.is_reachable)
            await asyncio.gather(*(person(*one, range(1), campaign) for one in chats))
        numbers = range(1, campaign.messages)
        talking = asyncio.gather(*(person(*one, numbers, campaign) for one in chats))
        damaging = [asyncio.create_task(damage(side, campaign)) for side in sides]
        while not talking.done():
            async with running(folder, campaign) as server:
                if campaign.kills == campaign.kills_max:
                    await talking
                with suppress(TimeoutError):
                    async with asyncio.timeout(rng.uniform(0.1, UP_S)):
                        await asyncio.shield(talking)
                if not talking.done():
                    server.process.send_signal(signal.SIGKILL)
                    campaign.kills += 1
        for task in damaging:
            task.cancel()
        await talking


def check(side: Side, campaign: Campaign) -> None:
    """Every message has its reply, in order, and no reply came twice without saying so."""
    for chat in campaign.people:
        texts = side.texts(chat)
        wanted = [f"re {number} of {chat}" for number in range(campaign.messages)]
        assert first_words(side, chat) == wanted, f"chat {chat}: {texts}"
        unmarked = Counter(text for text in texts if text in wanted)
        assert max(unmarked.values(), default=0) <= 1, f"a silent repeat in chat {chat}: {texts}"
        # What a run had said when it was given up is kept, above the message that says so.
        partial = sum(text in PARTIAL for text in texts)
        given_up = sum(side.retry in text for text in texts)
        assert partial <= given_up, f"a preview is left in chat {chat}: {texts}"
    if side.marks_max is not None:
        assert marks(side, campaign) <= side.marks_max, "it can be asked, so nothing needs a mark"


def marks(side: Side, campaign: Campaign) -> int:
    """How many answers say that they may be repeats."""
    return sum(text.startswith(MARK) for chat in campaign.people for text in side.texts(chat))


async def check_log(folder: Path, campaign: Campaign, side: Side) -> None:
    """Every message was accepted once, and everything that was to be said is settled."""
    store = await SqliteStore.open(folder / "data" / "holdfast.db")
    try:
        state = await channel_state(store, channel_log_id(side.name))
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
    known = state.outbox.deliveries
    given_up = [one for one in known.values() if one.state == "given_up"]
    campaign.given_up += len(given_up)
    # Whoever may miss something is told so: the notice is in the outbox, which was shown to lose nothing.
    unknown = e.DeliveryUnknown(at_ms=0, delivery="", why="", given_up=True)
    wanted_notices = [notice for one in given_up for notice in loss_notices(one, unknown, 0)]
    silent = [one for one in wanted_notices if isinstance(one, e.DeliveryIntended) and one.key not in known]
    assert not silent, f"given up in silence: {silent}"
    refused = [one for one in known.values() if one.state == "rejected"]
    assert not refused, f"not accepted: {[(one.key, one.why) for one in refused]}"


def main() -> None:
    """The campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", choices=list(SIDES), action="append", help="may be repeated")
    parser.add_argument("--chats", type=int, default=20)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=900.0, metavar="SECONDS")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the server's data there")
    given = parser.parse_args()
    platforms: list[str] = given.platform or ["telegram"]
    campaign = Campaign(given.chats, given.messages, given.seed, given.kills, platforms, given.within)
    with tempfile.TemporaryDirectory() if given.keep is None else nullcontext(given.keep) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        sides = asyncio.run(campaign_of(campaign, Path(folder)))
    chats = campaign.chats * len(sides)
    marked = sum(marks(side, campaign) for side in sides)
    sys.stdout.write(
        f"{', '.join(platforms)}, seed {campaign.seed}: {chats * campaign.messages} messages in "
        f"{chats} chats, {campaign.kills} kills, {sum(campaign.faults.values())} faults "
        f"{dict(campaign.faults)}: every reply arrived, in order; {marked} were marked as "
        f"possible repeats, none was silent; {campaign.given_up} were never confirmed, and their chats "
        "were told\n"
    )


if __name__ == "__main__":
    main()
