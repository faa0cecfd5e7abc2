"""What nobody can confirm, and what a platform refuses, is never silent: its chat and its people are told."""

from pathlib import Path

import pytest

from agent.world import process
from fakes.telegram import Accept, FakeTelegram, RefuseWith, ResetConnection
from features.channels.lab import LOG, ME, channel, echo, options_for, until
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Secret
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.decisions.deliveries import UNKNOWN_WAITS_S
from holdfast.features.channels.cli.doctor import undelivered
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
)
from holdfast.features.channels.outbound import GONE
from holdfast.features.channels.owner import NOT_TAKEN, UNCLEAR, loss_notices
from holdfast.features.channels.state import ChannelState, apply_to_channel
from holdfast.features.channels.texts import MARK
from holdfast.folds.outbox import OutboxEntry
from runner.steered_clock import SteeredClock, settle
from stores import SqliteStore

GIVEN_UP = e.DeliveryUnknown(at_ms=5, delivery="r/answer/0", why="cut", given_up=True)
REFUSED = e.DeliveryRejected(at_ms=5, delivery="r/answer/0", why="too odd")
ODD = RefuseWith("Bad Request: odd")


def entry(message: str = "answer", **fields: object) -> OutboxEntry:
    intended = e.DeliveryIntended(at_ms=1, chat="1", message=message, run="r", **fields)  # pyright: ignore[reportArgumentType]
    return OutboxEntry(intended, 1)


@pytest.mark.parametrize(
    ("delivery", "record", "said"),
    [
        (entry(), GIVEN_UP, UNCLEAR),
        (entry(part=3, parts=4), GIVEN_UP, UNCLEAR),
        (entry("apr_1"), GIVEN_UP, UNCLEAR),
        (entry(), REFUSED, NOT_TAKEN.format(why="too odd")),
        (entry(), e.DeliveryUnknown(at_ms=5, delivery="", why="cut"), ""),
        (entry(), e.DeliveryRejected(at_ms=5, delivery="", why="done", moot=True), ""),
        (entry(), e.DeliveryRejected(at_ms=5, delivery="", why="blocked", ends_chat=True), ""),
        (entry(), e.DeliveryRejected(at_ms=5, delivery="", why=GONE), ""),
        (entry("preview"), GIVEN_UP, ""),
        (entry("preview.removed", edits="r/preview/0", removes=True), GIVEN_UP, ""),
        (entry("apr_1.decided", edits="r/apr_1/0"), GIVEN_UP, ""),
        (entry("answer.lost", body=UNCLEAR), GIVEN_UP, ""),
        (entry(), e.DeliveryConfirmed(at_ms=5, delivery=""), ""),
    ],
)
def test_only_what_people_would_miss_is_told_of(delivery: OutboxEntry, record: e.Event, said: str) -> None:
    """P14: never silently not at all, and no chatter about what nobody misses."""
    notices = [one for one in loss_notices(delivery, record, 5) if isinstance(one, e.DeliveryIntended)]
    assert [(one.chat, one.key, one.body) for one in notices] == (
        [("1", f"r/{delivery.intended.message}.lost/0", said)] if said else []
    )


async def test_an_answer_that_is_never_confirmed_is_given_up_aloud(tmp_path: Path) -> None:
    """P14: the chat is told, and so are the log, the counts and the doctor."""
    clock, times = SteeredClock(), len(UNKNOWN_WAITS_S) + 1
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    chaos_server = ChaosServer(choose=echo)
    async with FakeTelegram() as telegram, chaos_server as chaos, process(chaos, store=store) as world:
        telegram.scripts.add("sendMessage", *([Accept(), ResetConnection()] for _ in range(times)))
        async with channel(world, options_for(telegram), clock=clock):
            telegram.world.say(ME, "hi")
            for number, wait_s in enumerate((*UNKNOWN_WAITS_S, 0.0), 1):
                await world.until(LOG, e.DeliveryUnknown, times=number)
                await settle()
                clock.advance(wait_s)
            await until(telegram, lambda: UNCLEAR in telegram.world.chat(ME).texts())
            await world.until(LOG, e.DeliveryConfirmed)
        texts = telegram.world.chat(ME).texts()
        assert texts == ["re: hi", *[f"{MARK}\nre: hi"] * (times - 1), UNCLEAR]
        channels = (ChannelSettings(name="tg", kind="telegram", token=Secret("1:x")),)
        (found,) = await undelivered(
            Settings(server=ServerSettings(data_dir=str(tmp_path)), channels=channels)
        )
        assert (found.state, found.facts) == ("note", {"given_up": 1, "rejected": 0})
        assert "might not have been delivered" in found.text
    await store.close()


async def test_a_message_that_is_refused_is_told_of_in_the_chat() -> None:
    """P14: what people don't get, they are told of."""
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        telegram.scripts.add("sendMessage", [ODD], [ODD])
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await until(telegram, lambda: bool(telegram.world.chat(ME).texts()))
        assert telegram.world.chat(ME).texts() == [NOT_TAKEN.format(why="Bad Request: odd")]


def test_a_platform_that_is_back_ends_the_wait_of_what_is_unclear_but_not_a_limit() -> None:
    """P3: an hour of failures isn't followed by another hour of silence."""
    state = ChannelState()
    events: list[e.Event] = [
        e.DeliveryIntended(at_ms=1, chat="1", message="a", run="r"),
        e.DeliveryIntended(at_ms=1, chat="2", message="b", run="r"),
        e.DeliveryAttempted(at_ms=2, delivery="r/a/0"),
        e.DeliveryAttempted(at_ms=2, delivery="r/b/0"),
        e.DeliveryUnknown(at_ms=3, delivery="r/a/0", why="HTTP 502", until_ms=3_600_000),
        e.DeliveryPostponed(at_ms=3, delivery="r/b/0", why="429", until_ms=3_600_000),
        ChannelFailed(at_ms=4, why="HTTP 502"),
        ChannelConnected(at_ms=500, account="x"),
    ]
    for seq, event in enumerate(events, 1):
        apply_to_channel(state, seq, event)
    assert [one.until_ms for one in state.outbox.open()] == [500, 3_600_000]
