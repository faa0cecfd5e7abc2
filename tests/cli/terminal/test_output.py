"""Where output goes: a terminal with a person before it, one that can do little, or none at all."""

import asyncio
import io
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input

from cli.terminal.screen import shown_on, watched
from holdfast import events as e
from holdfast.api.errors import ErrorDetail
from holdfast.chaos import ChaosServer, Say
from holdfast.cli.approvals import list_asks
from holdfast.cli.chat.conversation import ChatStart, chat
from holdfast.cli.run import show_run_here
from holdfast.cli.run_asks import RunAsks
from holdfast.cli.run_output import PlainOutput, TerminalOutput, output_for
from holdfast.cli.terminal.live_region import LiveRegion
from holdfast.cli.terminal.output import echo, echo_colored, echo_exactly, echo_json
from holdfast.cli.terminal.style import Style
from holdfast.client import Client, Refused
from holdfast.client.updates import Seen
from holdfast.policy.tool_names import ASK_USER
from scene import Scene, begun
from serving import served, target_of
from stores import SqliteStore

ATTACK = "a\x1b]52;c;QQ==\x07b\x1b[2J\x9b31mc\rd"


def test_a_terminal_gets_no_sequences_but_our_own_colors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: a file or a pipe gets an export as it was stored."""
    with watched(monkeypatch) as terminal:
        echo(ATTACK)
        echo_exactly(ATTACK, sys.stdout)
        echo_colored(f"\x1b[1m{ATTACK}\x1b[0m")
        LiveRegion(sys.stdout).show(ATTACK, ATTACK)
        shown = shown_on(terminal)
    begin, end = "\x1b[?2026h\r", "\x1b[?2026l"
    assert shown == f"abcd\r\nabcd\x1b[1mabcd\x1b[0m{begin}abcdabcd\r\n{end}"
    echo_exactly(ATTACK, sys.stdout)
    assert capsys.readouterr().out == ATTACK
    echo_json(msgspec.json.encode([ATTACK]))
    encoded = capsys.readouterr().out
    assert msgspec.json.decode(encoded) == [ATTACK]
    assert "\x9b" not in encoded


def test_live_lines_that_a_narrower_window_wrapped_are_erased_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as terminal:
        region = LiveRegion(sys.stdout)
        monkeypatch.setenv("COLUMNS", "100")
        region.show("", f"\x1b[2m{'x' * 73}\x1b[0m\nshort")
        shown_on(terminal)
        monkeypatch.setenv("COLUMNS", "30")
        region.clear()
        assert shown_on(terminal).count("\x1b[A\x1b[2K") == 3 + 1


@pytest.mark.parametrize(
    ("kind", "output"), [("dumb", PlainOutput), ("", PlainOutput), ("xterm-256color", TerminalOutput)]
)
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    kind: str, output: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(monkeypatch, kind=kind):
        assert type(output_for("text")) is output
        if output is PlainOutput:
            assert chat({}, ChatStart()) == 1
            assert "TERM is dumb" in capsys.readouterr().err


async def test_a_script_learns_once_that_another_target_answers() -> None:
    out, errors = io.StringIO(), io.StringIO()
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    scene.send("go", run_id="r1")
    for _ in range(2):
        scene.of_run(e.TargetSwitched, from_target="a", to_target="b", why="the key is wrong")
    output = PlainOutput(out, errors)
    for seq, event in scene.log:
        await output.hear(Seen(seq, cast("e.AnyEvent", event), b""))
    assert (out.getvalue(), errors.getvalue()) == ("", "holdfast: answered by b, because the key is wrong\n")


def test_a_chat_that_is_piped_something_says_nothing_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(monkeypatch), open(os.devnull) as nothing:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        assert chat({}, ChatStart()) == 1
    assert capsys.readouterr().err == "holdfast: chat needs a terminal; use holdfast run instead\n"


async def _asks(folder: Path) -> None:
    """A store in which a run asks a question whose choice is out to erase lines."""
    scene = begun()
    scene.asks_tool("t1", ASK_USER)
    scene.of_run(
        e.QuestionAsked, question_id="q1", tool_call_id="t1", text="Which?", choices=("a\x1b[2J", "b")
    )
    store = await SqliteStore.open(folder / "holdfast.db")
    fence = await store.claim("s")
    created = e.SessionCreated(at_ms=1, epoch="x")
    await store.append_run("s", [created, *(event for _, event in scene.log)], fence=fence)
    await store.close()


def test_what_a_terminal_would_obey_is_in_no_line_of_what_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: what a model offers to choose from cannot hide another question."""
    asyncio.run(_asks(tmp_path))
    with watched(monkeypatch) as screen:
        assert list_asks({"data_dir": str(tmp_path)}, form="text") == 0
        shown = shown_on(screen)
    assert "Which? (a / b)" in shown
    assert "\x1b" not in shown


@dataclass(slots=True)
class Refusing:
    """A server that takes an answer at the second time only, as far as asking needs one."""

    answers: list[str] = field(default_factory=list[str])
    taken: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, run_id: str, question_id: str, *, answer: str) -> None:
        del run_id, question_id
        self.answers.append(answer)
        if len(self.answers) == 1:
            raise Refused(503, ErrorDetail(message="the disk is full"))
        self.taken.set()


async def test_an_answer_that_is_not_taken_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3: the person hears why, and is not left before a run that waits in silence."""
    asked = e.QuestionAsked(at_ms=1, run_id="r", question_id="q", tool_call_id="t", text="Which?")
    server, shown, unread = Refusing(), list[bytes](), bytearray()
    await asyncio.to_thread(Style().dim, "what draws is imported when it is needed")
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")
    with watched(monkeypatch) as screen, create_pipe_input() as keys, create_app_session(input=keys):
        monkeypatch.setattr(sys, "stderr", sys.stdout)
        loop = asyncio.get_running_loop()
        answers = iter(("one\r", "two\r"))

        def look() -> None:
            shown.append(os.read(screen, 4096))
            unread.extend(shown[-1])  # the prompt may arrive in parts
            if b"type your answer" in unread:  # keys count now
                unread.clear()
                keys.send_text(next(answers, ""))

        loop.add_reader(screen, look)
        asks = RunAsks(cast("Client", server), output_for("text"), again_s=0.0)
        await asks.hear(asked)
        await server.taken.wait()
        await asks.close()
        loop.remove_reader(screen)
    assert server.answers == ["one", "two"]
    assert "the disk is full" in b"".join(shown).decode()


async def test_what_a_person_has_read_in_a_terminal_is_not_unread_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await asyncio.to_thread(Style().dim, "what draws is imported when it is needed")
    async with (
        ChaosServer([Say("for a script")], [Say("for a person")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        script = await client.start("hello")
        assert await show_run_here(client, script, form="json") == 0
        person = await client.start("hello")
        with watched(monkeypatch):
            assert await show_run_here(client, person, form="text") == 0
        unread = {one.session_id: one.unread for one in (await client.sessions()).data}
        assert unread == {script.session_id: True, person.session_id: False}
