"""The files of commands: what they may contain, what they expand to, and which are used."""

import asyncio
from pathlib import Path

import pytest

from holdfast.cli.doctor.command import ColourReport, PlainReport
from holdfast.config.settings import Settings
from holdfast.features.commands.actions import check_commands, trust
from holdfast.features.commands.library import (
    TEXT_CHARS_MAX,
    BadCommand,
    find_commands,
    parse_command,
    trusted_book,
)
from holdfast.interfaces.feature import DoctorContext, Expansion
from holdfast.interfaces.system_clock import SystemClock
from tables import for_each_row

REVIEW = """---
description: Review a file
argument-hint: FILE
model: big
mode: plan
allowed-tools: Bash(rm:*)
---

Review $1 with care. ($ARGUMENTS)
"""


def expansion(text: str, arguments: str) -> str:
    return parse_command(text, Path("x.md"), is_own=True).expanded(arguments).text


@for_each_row(
    "text, arguments, message",
    [
        ("Look at $1, then $2.", 'a.py "b c.py"', "Look at a.py, then b c.py."),
        ("All: $ARGUMENTS", "  it's open", "All:   it's open"),
        ("One: $1$2", "only", "One: only"),
        ("No placeholder", "", "No placeholder"),
        ("No placeholder", "but words", "No placeholder\n\nbut words"),
        ("$1 $10 $0 $ARGUMENTSX $HOME", "$2 two", "$2 $10 $0 $ARGUMENTSX $HOME"),
        ("`!rm -rf $1` and $(rm)", "x", "`!rm -rf x` and $(rm)"),
    ],
)
def test_arguments_are_inserted_as_text(text: str, arguments: str, message: str) -> None:
    """P13: nothing in a command is run, and arguments aren't expanded again."""
    assert expansion(text, arguments) == message


def test_front_matter_describes_the_command_and_can_only_narrow() -> None:
    """P13: it grants nothing, and the files of a workspace don't choose the model."""
    own = parse_command(REVIEW, Path("review.md"), is_own=True)
    assert own.about == "FILE: Review a file"
    assert own.expanded("a.py") == Expansion("Review a.py with care. (a.py)", "big", plan_first=True)
    assert parse_command(REVIEW, Path("review.md"), is_own=False).model == ""


@for_each_row(
    "name, text, why",
    [
        ("x.md", "---\nmode: unattended\n---\nGo", "`mode` can only be plan"),
        ("x.md", "---\ndescription: [\n---\nGo", "front matter that isn't YAML"),
        ("x.md", "---\ndescription: x\n---\n\n", "it has no text"),
        ("X y.md", "Go", "its name must be"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(name: str, text: str, why: str) -> None:
    with pytest.raises(BadCommand, match=why):
        parse_command(text, Path(name), is_own=True)


def test_a_message_has_a_limit() -> None:
    """P12: a small file doesn't make a huge message."""
    with pytest.raises(BadCommand, match="characters"):
        expansion("$ARGUMENTS" * 1_000, "x" * (TEXT_CHARS_MAX // 1_000 + 1))


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


def test_commands_of_a_workspace_are_used_once_trusted_and_the_users_own_win(tmp_path: Path) -> None:
    """P11: a repository's texts reach no model before a person has read them."""
    home, work = tmp_path / "home", tmp_path / "work"
    folder = work / ".holdfast" / "commands"
    write(home / "commands", mine="Mine", both="Mine, too")
    write(folder, theirs="Theirs", both="Theirs, too")
    (tmp_path / "secret").write_text("password")
    (folder / "link.md").symlink_to(tmp_path / "secret")
    found = find_commands(work, home)
    assert sorted(found.commands) == ["both", "mine"]
    assert found.problems[str(folder / "theirs.md")] == "it isn't trusted, or changed since"
    book = trusted_book(home)
    for name in ("theirs", "both"):
        book.trust(folder / f"{name}.md", (folder / f"{name}.md").read_text())
    found = find_commands(work, home)
    assert {name: one.body for name, one in found.commands.items()} == {
        "mine": "Mine",
        "both": "Mine, too",
        "theirs": "Theirs",
    }
    assert list(found.problems.values()) == [
        "you have a command with this name",
        "its path in the workspace contains a symbolic link",
    ]
    (folder / "theirs.md").write_text("Changed")
    assert "theirs" not in find_commands(work, home).commands
    (folder / "theirs.md").write_text("Theirs")
    (work / ".holdfast").rename(tmp_path / "moved")
    (work / ".holdfast").symlink_to(tmp_path / "moved")
    found = find_commands(work, home)
    assert sorted(found.commands) == ["both", "mine"]
    assert found.problems == {str(folder): "its path in the workspace contains a symbolic link"}


FORGED = "a\nok    sandbox: everything fine"


def test_an_unusable_file_is_named_on_one_line_and_the_others_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11, P12: a repository chooses the names of its files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    work = tmp_path / "work"
    write(work / ".holdfast" / "commands", **{".": "Hi", FORGED: "Hi", "review": "Hi", "zap": "Hi"})
    assert trust(work) == 1
    out, error = capsys.readouterr()
    assert [line.split(".")[0] for line in out.splitlines()] == ["Trusted /review", "Trusted /zap"]
    unusable, forged = error.splitlines()
    assert "/..md wasn't trusted: its name must be" in unusable
    assert "a\\nok    sandbox: everything fine.md wasn't trusted" in forged
    assert sorted(find_commands(work).commands) == ["review", "zap"]
    context = DoctorContext(Settings(), work, SystemClock(), is_offline=True)
    for report in (PlainReport(), ColourReport()):
        for finding in asyncio.run(check_commands(context)):
            report.write(finding)
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("ok    sandbox")] == []
    assert any("command a\\nok    sandbox: everything fine" in line for line in shown)
