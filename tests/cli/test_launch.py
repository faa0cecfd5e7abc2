"""The lines that are read without the parser, compared with what the parser makes of them."""

from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict
from typer.core import TyperGroup

from holdfast.cli.commands import app
from holdfast.cli.launch import ChatCommand, RunCommand, ServeCommand, parse_quickly

PARSER = typer.main.get_command(app)
WORDS = st.sampled_from(
    [
        *("hi", "-", "", "--json", "--session", "-s", "--model", "--workspace", "--data-dir", "--config"),
        *(
            "--port",
            "0",
            "8642",
            "x1",
            "--host",
            "--no-auth",
            "--help",
            "--",
            "--model=m",
            "--model=",
            "-s=m",
            "-x",
            "run",
            "ü",
        ),
    ]
)


def parsed(line: list[str]) -> dict[str, Any] | None:
    """The values that the whole parser hands to the command; None if it hands it none."""
    assert isinstance(PARSER, TyperGroup)
    command = PARSER.commands[line[0]]
    try:
        context = command.make_context(line[0], list(line[1:]))
    except (typer.Exit, typer.TyperException):
        return None
    return context.params


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["run", "chat", "serve"]), st.lists(WORDS, max_size=6))
def test_a_line_that_is_read_quickly_says_what_the_parser_says(command: str, words: list[str]) -> None:
    wanted = parse_quickly([command, *words])
    if wanted is None:
        return
    expected = parsed([command, *words])
    assert expected is not None, "the parser refuses it"
    assert {key: value or None for key, value in asdict(wanted).items()} == {
        key: value or None for key, value in expected.items()
    }


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ([], ChatCommand()),
        (["--session", "s1"], ChatCommand(session="s1")),
        (["--session=last", "--model=a=b"], ChatCommand(session="last", model="a=b")),
        (["chat", "-s", "s1"], ChatCommand(session="s1")),
        (["run", "say", "hi", "--json"], RunCommand(words=["say", "hi"], as_json=True)),
        (["run", "--data-dir", "d", "hi"], RunCommand(words=["hi"], data_dir="d")),
        (["serve", "--port", "0", "--no-auth"], ServeCommand(port=0, no_auth=True)),
    ],
)
def test_the_lines_that_people_type_need_no_parser(line: list[str], wanted: object) -> None:
    assert parse_quickly(line) == wanted


@pytest.mark.parametrize(
    "line",
    [
        ["doctor"],
        ["run", "--help"],
        ["run", "--session"],
        ["run", "--session="],
        ["-s=last"],
        ["serve", "--port", "x"],
        ["chat", "hi"],
        ["run", "-x"],
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_the_parser(line: list[str]) -> None:
    assert parse_quickly(line) is None
