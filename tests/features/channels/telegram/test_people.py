"""Who may talk and who may approve: nobody by default, and never by position."""

from pathlib import Path

from agent.world import Effect, World, asks_about, process
from fakes.telegram import FakeTelegram
from features.channels.lab import LOG, ME, acts, channel, options_for, state_of, until
from features.delegation.delegating import choose as delegating
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.features.channels.approvals import NOT_YOURS, UNKNOWN
from holdfast.features.channels.events import (
    ChannelCodeCreated,
    ChannelUserRevoked,
)
from holdfast.features.channels.state import TRIES_MAX, code_digest
from holdfast.features.channels.texts import ALREADY_PAIRED, CODE_WRONG, PAIRED, REFUSAL
from holdfast.features.delegation.tools import child_tools
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.runner.asks import Answered, ApprovalVerdict
from stores import SqliteStore

STRANGER = 99
NOBODY = frozenset[str]()


async def code(world: World, text: str = "ABCD2345", *, expires_at_ms: int = 2**52) -> None:
    made = ChannelCodeCreated(at_ms=1, digest=code_digest(LOG, text), expires_at_ms=expires_at_ms)
    await world.store.append(LOG, [made], when=[IfSessionKnown()])


async def test_a_stranger_is_refused_once_and_a_code_lets_one_person_in() -> None:
    """P11: nobody gets in without a code, and a code works once."""
    async with FakeTelegram() as telegram, ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram, allow=NOBODY, approvers=NOBODY)):
            for _ in range(3):
                telegram.world.say(STRANGER, "let me in")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 1)
            await code(world)
            telegram.world.say(STRANGER, "ABCD2346")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 2)
            telegram.world.say(STRANGER, "abcd2345")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 3)
            telegram.world.say(98, "ABCD2345")
            await until(telegram, lambda: len(telegram.world.chat(98).texts()) == 1)
            telegram.world.say(STRANGER, "hi")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 4)
            await code(world, "BCDE2345")
            telegram.world.say(STRANGER, "BCDE2345")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 5)
            assert not (await state_of(world)).codes
            revoked = ChannelUserRevoked(at_ms=1, user=str(STRANGER))
            await world.store.append(LOG, [revoked])
            telegram.world.say(STRANGER, "still here?")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 6)
        texts = [REFUSAL, CODE_WRONG, PAIRED, "hello", ALREADY_PAIRED, REFUSAL]
        assert telegram.world.chat(STRANGER).texts() == texts
        assert telegram.world.chat(98).texts() == [REFUSAL]
        assert chaos.seen.requests_seen == 1


async def test_after_five_wrong_tries_the_right_code_opens_nothing() -> None:
    async with FakeTelegram() as telegram, ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram, allow=NOBODY)):
            telegram.world.say(STRANGER, "hi")
            await until(telegram, lambda: len(telegram.world.chat(STRANGER).texts()) == 1)
            await code(world)
            for number in range(5):
                telegram.world.say(STRANGER, f"ABCD234{number + 6 if number < 4 else 'X'}".ljust(8, "Z"))
                await until(telegram, lambda n=number: len(telegram.world.chat(STRANGER).texts()) == n + 2)
            telegram.world.say(STRANGER, "ABCD2345")
            telegram.world.say(ME, "me too")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 1)
        assert not (await state_of(world)).users
        assert PAIRED not in telegram.world.chat(STRANGER).texts()


async def test_a_code_that_several_people_send_at_once_lets_one_of_them_in(tmp_path: Path) -> None:
    """P11: a code works once, also for those whose chats are taken side by side."""
    people = range(91, 99)
    store = await SqliteStore.open(tmp_path / "holdfast.db")  # whose appends take a while
    chaos_server = ChaosServer([Say("hello")])
    async with FakeTelegram() as telegram, chaos_server as chaos, process(chaos, store=store) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 1)
            await code(world)
            for one in people:
                telegram.world.say(one, "ABCD2345")
            await until(telegram, lambda: all(telegram.world.chat(one).texts() for one in people))
        answers = sorted(telegram.world.chat(one).texts()[0] for one in people)
        assert answers == sorted([PAIRED, *[REFUSAL] * (len(people) - 1)])
        assert len((await state_of(world)).users) == 1
    await store.close()


async def test_wrong_codes_that_come_at_once_are_counted_exactly(tmp_path: Path) -> None:
    """P11: five wrong tries make all codes void, and the sixth is no try any more."""
    people = range(91, 99)
    store = await SqliteStore.open(tmp_path / "holdfast.db")  # whose appends take a while
    chaos_server = ChaosServer([Say("hello")])
    async with FakeTelegram() as telegram, chaos_server as chaos, process(chaos, store=store) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 1)
            await code(world)
            for one in people:
                telegram.world.say(one, "ZZZZ2345")
            await until(telegram, lambda: all(telegram.world.chat(one).texts() for one in people))
        answers = [telegram.world.chat(one).texts()[0] for one in people]
        assert answers.count(CODE_WRONG) == TRIES_MAX
        assert not (await state_of(world)).codes
    await store.close()


async def card(telegram: FakeTelegram, label: str) -> tuple[int, str]:
    await until(telegram, lambda: label in telegram.world.buttons(ME))
    return telegram.world.buttons(ME)[label]


async def test_a_button_approves_exactly_its_action_once_and_only_for_those_who_may() -> None:
    """P8: by id, in its chat, by an approver; a late, repeated or foreign click approves nothing."""
    done: list[str] = []
    judge = asks_about("act")
    async with FakeTelegram() as telegram, ChaosServer(choose=acts) as chaos:
        async with process(chaos, Effect("act", done), judge=judge) as world:
            options = options_for(telegram, allow=frozenset({"42", "43"}))
            async with channel(world, options):
                telegram.world.say(ME, "do it")
                message_id, data = await card(telegram, "Allow once")
                assert len(data.encode()) <= 64
                telegram.world.click(ME, message_id, data, user_id=43)
                telegram.world.click(ME, message_id, data, user_id=STRANGER)
                telegram.world.chat(43).messages[message_id] = {
                    **telegram.world.chat(ME).messages[message_id]
                }
                telegram.world.chat(43).messages[message_id]["chat"] = telegram.world.chat(43).shown()
                telegram.world.click(43, message_id, data, user_id=ME)
                await until(telegram, lambda: len(telegram.world.done("answerCallbackQuery")) == 3)
                assert not done
                telegram.world.click(ME, message_id, data)
                telegram.world.click(ME, message_id, data)
                await until(telegram, lambda: len(telegram.world.done("answerCallbackQuery")) == 5)
                await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
        assert done == ["act {}"]
        shown, answer = telegram.world.chat(ME).texts()
        assert "✓ Allowed once by User 42" in shown
        assert answer == "result: act done"
        assert not telegram.world.buttons(ME)
        texts = [str(call.parameters["text"]) for call in telegram.world.done("answerCallbackQuery")]
        assert texts[3:] == ["Allowed", "This request was already answered, or it has expired."]


async def test_a_card_shows_what_was_decided_elsewhere_and_a_late_click_changes_nothing() -> None:
    """P8: the page decides; the card in the chat says so."""
    done: list[str] = []
    async with FakeTelegram() as telegram, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, channel(world, options_for(telegram)):
            telegram.world.say(ME, "do it")
            message_id, data = await card(telegram, "Allow once")
            (session_id,) = (await state_of(world)).chats
            (asked,) = [
                one.event for one in await world.log(session_id) if isinstance(one.event, e.ApprovalAsked)
            ]
            denied = ApprovalVerdict("deny", by="page")
            assert await world.inbox.answer(asked.approval_id, denied) == Answered(asked.approval_id)
            await until(telegram, lambda: not telegram.world.buttons(ME))
            telegram.world.click(ME, message_id, data)
            await until(telegram, lambda: len(telegram.world.chat(ME).texts()) == 2)
            await until(telegram, lambda: len(telegram.world.done("answerCallbackQuery")) == 1)
        assert not done
        assert "✗ Denied by page" in telegram.world.chat(ME).texts()[0]


async def test_a_question_is_answered_by_a_button_or_by_what_is_written_next() -> None:
    async with FakeTelegram() as telegram, ChaosServer(choose=acts) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "a colour")
            message_id, data = await card(telegram, "blue")
            telegram.world.click(ME, message_id, data)
            await until(telegram, lambda: "result: blue" in telegram.world.chat(ME).texts())
            telegram.world.say(ME, "/new")
            telegram.world.say(ME, "another colour")
            await card(telegram, "red")
            telegram.world.say(ME, "green, please")
            await until(telegram, lambda: "result: green, please" in telegram.world.chat(ME).texts())
        cards = [text for text in telegram.world.chat(ME).texts() if text.startswith("which?")]
        assert [one.splitlines()[-1] for one in cards] == [
            "✓ Answered by User 42: blue",
            "✓ Answered by User 42: green, please",
        ]


async def test_a_command_decides_the_ask_that_it_names_or_the_only_one() -> None:
    """P8: never by position, and never another one."""
    done: list[str] = []
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=acts) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act")) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.say(ME, "/approve")
        telegram.world.say(ME, "do it")
        await card(telegram, "Allow once")
        telegram.world.say(ME, "/approve apr_000000000000000000000000")
        await until(telegram, lambda: UNKNOWN in telegram.world.chat(ME).texts())
        assert not done
        telegram.world.say(ME, "/approve")
        await until(telegram, lambda: "result: act done" in telegram.world.chat(ME).texts())
        assert telegram.world.chat(ME).texts()[0] == "No pending approval requests."
    assert done == ["act {}"]


async def test_an_approver_decides_from_their_own_chat_and_who_asked_may_deny() -> None:
    """P8: by id and by an approver, wherever the card is; who isn't one can only deny their own."""
    done: list[str] = []
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=acts) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act")) as world,
        channel(world, options_for(telegram, allow=frozenset({"42", "43", "44"}))),
    ):

        async def tells(user: int, text: str, answer: str) -> None:
            telegram.world.say(user, text)
            await until(telegram, lambda: any(answer in one for one in telegram.world.chat(user).texts()))

        telegram.world.say(43, "do it")
        await until(telegram, lambda: "Allow once" in telegram.world.buttons(43))
        approval_id = telegram.world.buttons(43)["Allow once"][1].split(":")[1]
        await tells(43, f"/approve {approval_id}", NOT_YOURS)
        await tells(44, f"/deny {approval_id}", UNKNOWN)
        await tells(ME, "/approve", f"{approval_id}:\n\nact {{}}")
        assert not done
        await tells(ME, f"/approve {approval_id}", "Allowed")
        await until(telegram, lambda: "result: act done" in telegram.world.chat(43).texts())
        assert done == ["act {}"]
        telegram.world.say(43, "/new")
        telegram.world.say(43, "do it again")
        await until(telegram, lambda: "Allow once" in telegram.world.buttons(43))
        await tells(43, "/deny", "Denied")
    assert done == ["act {}"]


async def test_what_a_sub_agent_asks_is_a_card_in_the_chat_of_the_session_on_top() -> None:
    """P8: two levels down, by its own id, and the card says what became of it."""
    done: list[str] = []
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=delegating) as chaos,
        process(chaos, Effect("act", done), *child_tools(), judge=asks_about("act")) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.say(ME, "go")
        message_id, data = await card(telegram, "Allow once")
        telegram.world.click(ME, message_id, data)
        await until(telegram, lambda: "all done" in telegram.world.chat(ME).texts())
        await until(telegram, lambda: "Allowed once" in telegram.world.chat(ME).texts()[0])
        telegram.world.say(ME, "/new")
        telegram.world.say(ME, "go")
        await card(telegram, "Allow once")
        telegram.world.say(ME, "/deny")
        await until(telegram, lambda: telegram.world.chat(ME).texts().count("all done") == 2)
    assert len(done) == 1
