"""Platforms that only have text keep the promises of channels: one suite for all of them."""

import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.world import Effect, World, asks_about, process
from fakes.exchanges import Accept, ResetConnection
from features.channels.crash_lab import MortalStore, accepted_in, lives, states_in, until_settled
from features.channels.lab import acts, echo, file_then_words
from features.channels.text_lab import ANN, BOB, EVE, LOGS, SIDES, TextSide, connected, talking, told
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.features.channels.approvals import NOT_YOURS, STALE
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.texts import MARK, choice_of, code_of, coded
from holdfast.tools.files.send_file import SendFile
from holdfast.values import FilePart
from stores import MemoryStore

ALL = pytest.mark.parametrize("platform", list(SIDES))


@ALL
async def test_a_message_is_answered_and_strangers_reach_no_model(platform: str) -> None:
    """P11, P14: also a file that a message brings, and a long answer in several messages."""
    long = "\n\n".join(f"Paragraph {at}: " + "word " * 200 for at in range(8))
    hello = [Say("**Hello** [there](https://a.example)")]
    async with (
        SIDES[platform]() as side,
        ChaosServer(hello, [Say(long)]) as chaos,
        process(chaos) as world,
        talking(world, side),
    ):
        side.say(EVE, "let me in")
        side.say(ANN, "hi", [("notes.txt", b"remember the milk")])
        await told(side, ANN, "Hello there (https://a.example)")
        side.say(ANN, "more")
        await side.changed.until(lambda: "Paragraph 7" in "".join(side.texts(ANN)))
        parts = side.texts(ANN)[1:]
        assert len(parts) > (platform == "bridge"), "others have longer messages"
        assert "".join("".join(parts).split()) == "".join(long.split())
        # In Matrix, a file is its own message.
        assert chaos.seen.requests_seen == 2 or platform == "matrix", "a stranger costs nothing"
        state = await channel_state(world.store, side.options().log_id)
        (session_id,) = state.chats
        accepted = [
            one.event for one in await world.log(session_id) if isinstance(one.event, e.MessageAccepted)
        ]
        (part,) = accepted[0].parts
        assert isinstance(part, FilePart)
        assert await world.store.blob(part.blob) == b"remember the milk"


@ALL
async def test_a_reply_with_a_code_approves_exactly_its_action_once_and_only_for_those_who_may(
    platform: str,
) -> None:
    """P8: a code names one choice of one card, in one chat; a late one changes nothing."""
    effect = Effect("act", [])
    async with (
        SIDES[platform]() as side,
        ChaosServer(choose=acts) as chaos,
        process(chaos, effect, judge=asks_about("act")) as world,
        talking(world, side),
    ):
        side.say(BOB, "go")
        await side.changed.until(lambda: bool(side.texts(BOB)))
        card = side.texts(BOB)[0]
        codes = dict(re.findall(r"^Reply (\w+) for: (.+)$", card, re.MULTILINE))
        assert codes["A1"] == "Allow once"
        assert codes["A4"] == "Deny"
        assert all(line.startswith((">", "Reply ")) for line in card.splitlines() if line)
        side.say(BOB, "a1")
        await side.changed.until(lambda: NOT_YOURS in side.texts(BOB))
        assert not effect.receiver
        side.say(BOB, "A4")
        await side.changed.until(lambda: any("result:" in text for text in side.texts(BOB)))
        assert any("✗ Denied" in text for text in side.texts(BOB))
        side.say(ANN, "go")
        await side.changed.until(lambda: bool(side.texts(ANN)))
        side.say(ANN, "A1")
        await side.changed.until(lambda: any("result:" in text for text in side.texts(ANN)))
        assert len(effect.receiver) == 1
        side.say(ANN, "A1")
        await side.changed.until(lambda: STALE in side.texts(ANN))
        side.say(ANN, "/new")
        side.say(ANN, "what colour")
        await side.changed.until(lambda: any("which?" in text for text in side.texts(ANN)))
        side.say(ANN, "B2")
        await side.changed.until(
            lambda: any("✓ Answered" in text and "blue" in text for text in side.texts(ANN))
        )
    assert len(effect.receiver) == 1


@ALL
async def test_a_file_is_sent_before_the_answer_and_a_lost_response_is_marked(
    platform: str, tmp_path: Path
) -> None:
    """P14: never silently twice, never silently not at all."""
    (tmp_path / "a.txt").write_bytes(b"abc")
    async with (
        SIDES[platform]() as side,
        ChaosServer(choose=file_then_words) as chaos,
        process(chaos, SendFile(), workspace=tmp_path) as world,
        talking(world, side),
    ):
        side.scripts.add("message", [Accept()], [Accept(), ResetConnection()])
        side.say(ANN, "send it")
        await side.changed.until(lambda: bool(side.texts(ANN)) and "there you are" in side.texts(ANN)[-1])
        await until_settled(world.store, LOGS[platform])
        assert side.files(ANN) == [("a.txt", b"abc")]
        answers = [text for text in side.texts(ANN) if "there you are" in text]
        assert answers in (["there you are", f"{MARK}\nthere you are"], ["there you are"])


@asynccontextmanager
async def chatting(side: TextSide, chaos: ChaosServer, store: MortalStore) -> AsyncGenerator[World]:
    async with process(chaos, store=store) as world, talking(world, side, store.clock):
        yield world


async def talk(side: TextSide, said: set[str], store: MemoryStore) -> None:
    """Two people write; one of them again once they have their answer."""
    await connected(store, side.options().log_id)
    for texts in ({ANN: "one", BOB: "two"}, {ANN: "three"}):
        for person, text in texts.items():
            if text not in said:
                said.add(text)
                side.say(person, text)
        for person, text in texts.items():
            await side.changed.until(lambda text=text, person=person: _has(side, person, text))
    await until_settled(store, side.options().log_id)


def _has(side: TextSide, person: str, text: str) -> bool:
    return any(one.endswith(f"re: {text}") for one in side.texts(person))


@pytest.mark.long
@ALL
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_nothing_is_lost_or_silently_repeated_though_the_process_dies_at_each_append(
    platform: str, *, after: bool
) -> None:
    """P14, P6: the platform's own record is compared with the logs."""
    log_id = LOGS[platform]
    for life in lives(after=after, log=log_id, at_least=8):
        async with SIDES[platform]() as side, ChaosServer(choose=echo) as chaos:
            chat, talked = partial(chatting, side, chaos), partial(talk, side, set[str]())
            await life.lived(chat, talked)
            await life.lived_again(chat, talked)
            assert await accepted_in(life.disk, log_id) == Counter(["one", "two", "three"])
            for person, wanted in ((ANN, ["re: one", "re: three"]), (BOB, ["re: two"])):
                texts = side.texts(person)
                unmarked = [text for text in texts if not text.startswith(MARK)]
                assert len(unmarked) == len(set(unmarked)), f"a silent repeat in {texts}"
                assert list(dict.fromkeys(text.removeprefix(MARK).strip() for text in texts)) == wanted
            assert await states_in(life.disk, log_id) == {"confirmed"}


def test_codes_name_a_card_and_a_choice() -> None:
    assert [code_of(number, "a:apr:once") for number in (0, 1, 26, 27, 703)] == [
        "",
        "A1",
        "Z1",
        "AA1",
        "AAA1",
    ]
    assert [code_of(2, f"q:qst:{at}") for at in (0, 8, 9)] == ["B1", "B9", ""]
    assert [coded(text) for text in ("aaa4 ", "B9")] == [(703, 4), (2, 9)]
    assert [coded(text) for text in ("A0", "12", "yes", "A1 please", "ABCDE1", "")] == [None] * 6
    kinds: list[Any] = ["approval", "question"]
    assert [choice_of(kind, digit) for kind in kinds for digit in (1, 4, 9)] == [
        "once",
        "deny",
        "",
        "0",
        "3",
        "8",
    ]
