"""The menu of an ask: which keys answer it, and which come too early to mean it."""

import asyncio
from typing import Any

import pytest
from msgspec import structs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from cli.prompt_bench import ASKED, HandClock, bench, check_early_keys_do_not_count
from holdfast import events as e
from holdfast.cli.ask_keys import MenuKeys
from holdfast.cli.asks import (
    GUARD_S,
    ApprovalReply,
    AskMenu,
    QuestionReply,
    TypeAheadGuard,
    Unclear,
    read_answer,
)

QUESTION = e.QuestionAsked(
    at_ms=1, run_id="run_1", question_id="qst_1", tool_call_id="c2", text="Which?", choices=("red", "blue")
)


async def test_keys_count_once_the_ask_was_on_the_screen_and_the_keyboard_was_quiet() -> None:
    """P8: a key that its typist pressed before reading the ask is no consent."""
    await check_early_keys_do_not_count(TypeAheadGuard)


@pytest.mark.parametrize(
    ("keys", "choice"), [("y", "once"), ("n", "deny"), ("N", "deny"), ("3", "always"), ("4", "deny")]
)
def test_a_letter_or_a_number_stands_for_a_choice(keys: str, choice: Any) -> None:
    line = AskMenu(ASKED).line_for(keys)
    assert line is not None
    assert read_answer(ASKED, line) == ApprovalReply(choice)


def test_keys_that_name_no_entry_stand_for_nothing() -> None:
    menu = AskMenu(ASKED)
    assert [menu.line_for(key) for key in ("6", "9", "s", "a", "")] == [None] * 5
    assert AskMenu(QUESTION).line_for("y") is None
    assert AskMenu(QUESTION).line_for("3") is None


def test_enter_alone_approves_nothing_and_after_an_arrow_it_takes_the_chosen_entry() -> None:
    """P8: nothing is chosen before the person chooses."""
    menu = AskMenu(ASKED)
    assert menu.line_chosen() is None
    assert isinstance(read_answer(ASKED, ""), Unclear)
    menu.move(1)
    assert menu.line_chosen() == "once"
    menu.move(-1)
    menu.move(-1)
    assert menu.line_chosen() == "deny"
    assert "❯ 4. Deny" in menu.lines(80)[3]  # noqa: RUF001  # the pointer
    asked = AskMenu(QUESTION)
    asked.move(-1)
    assert read_answer(QUESTION, asked.line_chosen() or "") == QuestionReply("blue")


def test_a_long_choice_is_wrapped_between_words_and_under_its_text() -> None:
    asked = structs.replace(QUESTION, choices=(" ", "blue as the sea in the morning"))
    menu = AskMenu(asked)
    menu.move(-1)
    plain = [line.replace("\x1b[1;36m", "").replace("\x1b[0m", "") for line in menu.lines(30)]
    assert plain == ["    1. ", "  ❯ 2. blue as the sea in the", "       morning"]  # noqa: RUF001  # the pointer


def test_a_key_that_came_too_early_is_told_so_until_another_one_counts() -> None:
    clock = HandClock()
    menu = AskMenu(ASKED, TypeAheadGuard(clock))
    menu.guard.drawn()
    assert not menu.hint
    menu.guard.lets_through()
    assert menu.hint == "That key was too early to count."
    clock.now_s += GUARD_S * 1.1
    assert menu.hint == "That key was too early to count. Now: y, n, a number, or ↑ ↓ and Enter"
    menu.guard.lets_through()
    assert menu.hint == "y, n, a number, or ↑ ↓ and Enter"


async def test_keys_that_come_too_early_answer_nothing_and_are_kept_for_the_message() -> None:
    """P8: neither the y of a word that is being typed, nor the Enter behind it."""
    async with bench() as one:
        await one.asked("apr_1", ASKED)
        one.press("yes\x1b[B\r\x03")
        await one.interrupted.wait()
        one.clock.now_s += 1.0
        one.press("n")
        assert await one.line() == "deny"
        one.prompt.resume()
        assert one.prompt.typed == "yes"


@pytest.mark.parametrize("keys", ["y", "yy", "11", "x"])
async def test_an_answer_that_came_too_soon_is_not_left_in_the_input_line(keys: str) -> None:
    async with bench() as one:
        await one.asked("apr_1", ASKED)
        one.press(f"{keys}\x03")
        await one.interrupted.wait()
        one.clock.now_s += 1.0
        one.press("y")
        assert await one.line() == "once"
        one.prompt.resume()
        assert not one.prompt.typed


async def test_after_an_early_key_the_hint_is_drawn_anew_once_keys_count() -> None:
    """A prompt that draws nothing by itself would say for ever that the key was too early."""
    clock = HandClock()
    menu = AskMenu(ASKED, TypeAheadGuard(clock))
    hints: asyncio.Queue[str] = asyncio.Queue()
    with create_pipe_input() as keyboard:
        session: PromptSession[str] = PromptSession(input=keyboard, output=DummyOutput())
        early: list[str] = []

        def answer(line: str) -> None:
            session.app.exit(result=line)

        keys = MenuKeys(lambda: menu, answer=answer, keep_early=early.append)

        def drawn(_: Application[str]) -> None:
            menu.guard.drawn()
            hints.put_nowait(menu.hint)

        session.app.after_render += drawn
        reading = asyncio.create_task(session.prompt_async(key_bindings=keys.bindings))
        assert not await hints.get()
        keyboard.send_text("y")
        while not await hints.get():
            pass
        clock.now_s += 1.0
        async with asyncio.timeout(30):
            while "Now: y, n" not in await hints.get():
                pass
        keyboard.send_text("n")
        assert await reading == "deny"


async def test_enter_sends_the_chosen_entry_and_a_reason_can_be_typed() -> None:
    async with bench() as one:
        await one.asked("apr_1", ASKED)
        one.clock.now_s += 1.0
        one.press("\r")
        assert not await one.line()
        one.press("\x1b[B\x1b[B\r")
        assert await one.line() == "session"
        one.press("5use tabs\r")
        assert read_answer(ASKED, await one.line()) == ApprovalReply("deny", "use tabs")
        one.press("no spaces, please\r")
        assert await one.line() == "deny"


async def test_a_key_that_is_typed_after_escape_is_not_part_of_it() -> None:
    """Also within the second in which a sequence could continue, "/" begins a command."""
    async with bench() as one:
        for line in ("/status", "don't"):
            one.clock.read.clear()
            one.press("\x1b")
            await one.clock.read.wait()
            one.clock.now_s += 0.5
            one.press(f"{line}\r")
            assert await one.line() == line
        one.press("hello world\x1bbwide \r")  # Alt-B comes at once
        assert await one.line() == "hello wide world"
        one.press("a\x1b\rb\r")
        assert await one.line() == "a\nb"
