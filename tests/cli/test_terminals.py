"""Where output goes: a terminal with a person before it, one that can do little, or none at all."""

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from holdfast.chaos import ChaosServer, Say
from holdfast.cli.chat import chat
from holdfast.cli.ink import Ink
from holdfast.cli.run import told_here
from holdfast.cli.run_output import PlainOutput, TerminalOutput, output_for
from holdfast.client import Client
from serving import served, target_of


@contextmanager
def watched(patch: pytest.MonkeyPatch, *, kind: str) -> Generator[None]:
    """The standard input and output are a terminal of this kind meanwhile."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb"), patch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setattr(sys, "stdin", terminal)
        patched.setenv("TERM", kind)
        yield


@pytest.mark.parametrize(
    ("kind", "output"), [("dumb", PlainOutput), ("", PlainOutput), ("xterm-256color", TerminalOutput)]
)
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(
    kind: str, output: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(monkeypatch, kind=kind):
        assert type(output_for("text")) is output
        if output is PlainOutput:
            assert chat({}, session="", model="") == 1
            assert "TERM is dumb" in capsys.readouterr().err


def test_a_chat_that_is_piped_something_says_nothing_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(monkeypatch, kind="xterm-256color"), open(os.devnull) as nothing:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", nothing)
        assert chat({}, session="", model="") == 1
    assert capsys.readouterr().err == "holdfast: chat needs a terminal; holdfast run works everywhere\n"


async def test_what_a_person_has_read_in_a_terminal_is_not_unread_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await asyncio.to_thread(Ink().dim, "what draws is imported when it is needed")
    async with (
        ChaosServer([Say("for a script")], [Say("for a person")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        script = await client.start("hello")
        assert await told_here(client, script, form="json") == 0
        person = await client.start("hello")
        with watched(monkeypatch, kind="xterm-256color"):
            assert await told_here(client, person, form="text") == 0
        unread = {one.session_id: one.unread for one in (await client.sessions()).data}
        assert unread == {script.session_id: True, person.session_id: False}
