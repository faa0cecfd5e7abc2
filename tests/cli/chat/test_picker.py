"""The picker: which rows fit, which one is chosen, and how old they are."""

import asyncio
import os
import pty
from itertools import count
from pathlib import Path
from typing import TextIO

import pytest
import uvloop
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.output import DummyOutput

from cli.prompt_bench import ASKED, bench
from holdfast.cli.chat.file_names import WorkspaceFiles, list_files
from holdfast.cli.chat.picker import Picker, PickerRow, age
from holdfast.cli.chat.prompt import ChatPrompt, PromptActs, PromptDevice, SilentInput, file_typed
from tables import for_each_row

ROWS = [PickerRow(f"/sessions s{number}", f"Fix the {word}", "1 h ago") for number, word in enumerate("abc")]


def test_typing_filters_and_the_arrows_stay_in_the_list() -> None:
    picker = Picker("Sessions", ROWS)
    assert picker.chosen("") == "/sessions s0"
    for _ in range(5):
        picker.move(1, "")
    assert picker.chosen("") == "/sessions s2"
    assert picker.chosen("FIX the b") == "/sessions s1"
    assert picker.chosen("no such") is None
    assert picker.chosen("s2") == "/sessions s2", "the beginning of an id"
    assert picker.chosen("2") is None, "what nobody sees fits nothing"
    assert picker.chosen("session") is None
    assert picker.lines("no such", width=60, rows_max=9)[1] == "    No matches."


def test_the_chosen_row_is_in_sight_and_no_row_is_too_wide() -> None:
    rows = [PickerRow(str(number), f"row {number} " + "long " * 30, "2 days ago") for number in range(50)]
    picker = Picker("Sessions", rows)
    picker.move(30, "")
    _, *lines, _ = picker.lines("", width=60, rows_max=8)
    assert len(lines) == 8
    (chosen,) = [line for line in lines if "\x1b[1;36m" in line]
    assert "row 30 " in chosen
    assert all(
        len(line.replace("\x1b[1;36m", "").replace("\x1b[0m", "").replace("\x1b[2m", "")) <= 60
        for line in lines
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (7_300, "2 h ago"),
        (90_000, "1 day ago"),
        (400_000, "4 days ago"),
    ],
)
def test_an_age_is_told_as_people_say_it(seconds: float, words: str) -> None:
    assert age(seconds) == words


async def test_enter_takes_the_chosen_row_and_escape_leaves_the_picker() -> None:
    async with bench() as one:
        one.prompt.pick(Picker("Sessions", ROWS))
        one.press("\x1b[B\r")
        assert await one.line() == "/sessions s1"
        one.prompt.pick(Picker("Sessions", ROWS))
        one.press("b\r")
        assert await one.line() == "/sessions s1"
        one.prompt.pick(Picker("Sessions", ROWS))
        one.press("b\x03hello\r")  # Ctrl-C leaves it, too
        assert await one.line() == "hello"


async def test_an_approval_closes_the_picker_and_the_filter_is_no_answer() -> None:
    """P8: what is typed for a list is not typed for an approval."""
    async with bench() as one:
        one.prompt.pick(Picker("Sessions", ROWS))
        await one.asked("apr_1", ASKED)
        one.press("y\r\x03")
        await one.interrupted.wait()
        assert one.prompt.lines.empty()


@pytest.mark.parametrize("keys", ["\x1b\r", "\n", "\\\r"], ids=["Alt-Enter", "Ctrl-J", "backslash Enter"])
async def test_a_message_has_several_lines(keys: str) -> None:
    async with bench() as one:
        one.press(f"one{keys}two\r")
        assert await one.line() == "one\ntwo"


async def test_a_paste_keeps_its_lines_and_is_not_sent_by_them() -> None:
    async with bench() as one:
        one.press("\x1b[200~one\r\ntwo\rthree\x1b[201~\r")
        assert await one.line() == "one\ntwo\nthree"


@for_each_row("keys, line", [(b"\x1b[A\r", "earlier"), (b"typed ahead\r", "typed ahead")])
def test_what_is_typed_before_the_prompt_is_there_counts(keys: bytes, line: str) -> None:
    """However slow the machine is, and on uvloop, which reads from files before it continues with tasks.

    The terminal makes a line feed of Enter, which is also what Ctrl-J sends.
    """

    async def first_line(keyboard: TextIO) -> str:
        seconds = count()
        prompt = ChatPrompt(
            history=InMemoryHistory(["earlier"]),
            words=DummyCompleter(),
            live=str,
            status=str,
            acts=PromptActs(),
            device=PromptDevice(SilentInput(keyboard), DummyOutput(), lambda: next(seconds)),
        )
        reading = asyncio.create_task(prompt.run())
        typed = await prompt.lines.get()
        prompt.leave()
        await reading
        assert typed is not None
        return typed.line

    ahead, terminal = pty.openpty()
    os.write(ahead, keys)
    with os.fdopen(terminal) as keyboard, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(first_line(keyboard)) == line
    os.close(ahead)


async def test_escape_twice_asks_for_the_last_message_and_what_is_sent_replaces_it() -> None:
    async with bench() as one:
        one.press("\x1b\x1b")
        await one.edits.wait()
        one.prompt.edit("the last message", 7)
        one.press(" again\r")
        typed = await one.prompt.lines.get()
        assert typed is not None
        assert (typed.line, typed.edits) == ("the last message again", 7)
        one.press("next\r")
        typed = await one.prompt.lines.get()
        assert typed is not None
        assert typed.edits == 0


async def test_ctrl_r_finds_an_earlier_message() -> None:
    async with bench() as one:
        for text in ("the walrus", "the carpenter"):
            one.press(f"{text}\r")
            assert await one.line() == text
        found = ""
        while not found:  # the history is loaded while the prompt is drawn
            one.press("\x12wal\r\r")  # the first Enter takes it into the input line
            found = await one.line()
        assert found == "the walrus"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("look at @src/a", "src/a"),
        ("@", ""),
        ("one\n@two", "two"),
        ("me@example.org", None),
        ("@done and", None),
        ("/attach pic", "pic"),
        ("", None),
    ],
)
def test_a_file_is_named_behind_an_at_sign_that_begins_a_word(text: str, name: str | None) -> None:
    assert file_typed(text) == name


async def test_files_that_are_ignored_or_may_hold_secrets_are_not_offered(tmp_path: Path) -> None:
    """P11: completing a name does not lead to a key."""
    for name in ("src/alpha.py", "alphabet.md", "build/alpha.o", ".env", "id_rsa", "credentials.json"):
        path = tmp_path / name
        await asyncio.to_thread(path.parent.mkdir, exist_ok=True)
        await asyncio.to_thread(path.write_text, "x")
    await asyncio.to_thread((tmp_path / ".gitignore").write_text, "build/\n")
    names = await asyncio.to_thread(list_files, tmp_path)
    assert names == ("alphabet.md", "src/alpha.py")
    files = WorkspaceFiles(tmp_path)
    assert list(files.matching("alpha")) == []
    await files.refresh()
    assert list(files.matching("ALPHA")) == ["alphabet.md", "src/alpha.py"]
    assert list(files.matching("src/")) == ["src/alpha.py"]
