"""Matrix: groups, threads, invitations, encrypted rooms, edits, and a sync that was cut."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World, process
from fakes.exchanges import Accept, ResetConnection
from fakes.matrix import US, FakeMatrix
from features.channels.crash_lab import until_settled
from features.channels.lab import echo
from features.channels.text_lab import ANN, BOB, LOGS, SIDES, MatrixSide, member, talking
from holdfast.chaos import ChaosServer
from holdfast.decisions.deliveries import (
    Arrived,
    DidNotArrive,
    FormatRefused,
    MayHaveArrived,
    NotAccepted,
    SendResult,
)
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.matrix.api import MatrixFailure, MatrixReply, MatrixResult
from holdfast.features.channels.matrix.channel import ENCRYPTED, html_of, result_of
from holdfast.features.channels.messages import Unanswered, Unwritten
from holdfast.features.channels.text_platform import text_messages
from tables import for_each_row


@asynccontextmanager
async def chatting() -> AsyncGenerator[tuple[MatrixSide, FakeMatrix, World]]:
    async with (
        SIDES["matrix"]() as side,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        talking(world, side),
    ):
        assert isinstance(side, MatrixSide)
        yield side, side.fake, world


async def test_in_a_group_only_mentions_are_answered_and_a_thread_is_a_conversation() -> None:
    """P14: with the name of the sender; a message of the agent's own is never read."""
    async with chatting() as (side, fake, world):
        room = fake.room(member(ANN), member(BOB))
        fake.say(room, member(ANN), "just talking")
        fake.say(room, member(ANN), "agent: first")
        await side.changed.until(lambda: len(fake.sent(room)) == 1)
        thread = {"rel_type": "m.thread", "event_id": "$root"}
        content = {"m.relates_to": thread, "m.mentions": {"user_ids": [US]}}
        fake.say(room, member(ANN), "> <@b> quoted\n\nsecond", **content)
        await side.changed.until(lambda: len(fake.sent(room)) == 2)
        first, second = fake.sent(room)
        state = await channel_state(world.store, LOGS["matrix"])
    assert first["body"] == f"re: {member(ANN)}: first"
    assert "m.relates_to" not in first
    assert second["body"] == f"re: {member(ANN)}: second"
    assert second["m.relates_to"]["event_id"] == "$root"
    assert len(state.sessions) == 2


async def test_invitations_of_known_people_are_accepted_and_encrypted_rooms_get_one_notice() -> None:
    """P11: a stranger's invitation is left alone."""
    async with chatting() as (side, fake, _):
        theirs = fake.invite("@eve:people.example")
        room = fake.invite(member(ANN))
        await side.changed.until(lambda: US in room.members)
        for _ in range(2):
            fake.event(room, member(ANN), "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"})
        fake.say(room, member(ANN), "hi")
        await side.changed.until(lambda: len(side.texts(ANN)) == 1)
        notices = [one["body"] for one in fake.sent(room) if one.get("msgtype") == "m.notice"]
    assert notices == [ENCRYPTED]
    assert US not in theirs.members


async def test_a_gap_in_a_sync_is_filled_and_a_lost_response_is_found_by_its_transaction() -> None:
    """P14: nothing that people wrote meanwhile is lost, and nothing is sent twice."""
    async with chatting() as (side, fake, world):
        room = fake.room(member(ANN))
        fake.timeline_max = 2
        fake.scripts.add("message", [Accept(), ResetConnection()])
        for at in range(6):  # in one batch, of which the sync shows the end
            fake.say(room, member(ANN), f"m{at}")
        texts = ("m0", "m5")
        await side.changed.until(lambda: all(any(t in one for one in side.texts(ANN)) for t in texts))
        await until_settled(world.store, LOGS["matrix"])
        sent = side.texts(ANN)
    words = " ".join(sent)
    assert all(words.count(f"m{at}") == 1 for at in range(6)), sent


@for_each_row(
    ("reply", "result"),
    [
        (MatrixResult({"event_id": "$1"}), Arrived("$1")),
        (Unwritten("x"), DidNotArrive("x")),
        (Unanswered("x"), MayHaveArrived("x")),
        (MatrixFailure(429, "M_LIMIT_EXCEEDED", "slow", 2.5), DidNotArrive("M_LIMIT_EXCEEDED: slow", 2.5)),
        (MatrixFailure(401, "M_UNKNOWN_TOKEN", "x"), DidNotArrive("M_UNKNOWN_TOKEN: x")),
        (MatrixFailure(403, "M_FORBIDDEN", "x"), NotAccepted("M_FORBIDDEN: x", ends_chat=True)),
        (MatrixFailure(400, "M_BAD_JSON", "x"), FormatRefused("M_BAD_JSON: x")),
        (MatrixFailure(413, "M_TOO_LARGE", "x"), NotAccepted("M_TOO_LARGE: x")),
    ],
)
async def test_a_reply_decides_whether_a_message_arrived(reply: MatrixReply, result: SendResult) -> None:
    """P14: only Matrix's own answer means that nothing was sent."""
    assert result_of(reply) == result


def test_text_cannot_break_out_of_its_formatting() -> None:
    (spans,) = text_messages('**a<b** `<i>` [x](https://a.example/?"b)\n\n```\n<p>\nq\n```', chars_max=1_000)
    html = html_of(spans)
    assert "<strong>a&lt;b</strong> <code>&lt;i&gt;</code>" in html
    assert 'href="https://a.example/?%22b"' in html or "&quot;b" in html
    assert "<pre><code>&lt;p&gt;\nq</code></pre>" in html
