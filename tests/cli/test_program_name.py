"""Hints name the program as it was started, and a start says what it is doing."""

import sys
from pathlib import Path

import pytest

from cli.terminal.screen import Screen, shown_on, watched
from holdfast.cli.program_name import command_line, program
from holdfast.cli.terminal.output import clear_step, show_step


def installed(folder: Path) -> Path:
    script = folder / "bin" / "holdfast"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


def test_a_program_that_the_shell_finds_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = installed(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "holdfast"


@pytest.mark.parametrize(("folder", "called"), [("", "bin/holdfast"), ("other place", "{path}")])
def test_one_that_it_does_not_find_is_called_by_its_path(
    folder: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = installed(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    assert program() == called.format(path=script)


def test_a_module_is_called_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/holdfast/__main__.py"])
    monkeypatch.chdir(tmp_path)
    assert program() == f"{sys.executable} -m holdfast"


def test_a_hint_keeps_the_data_directory_and_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["/x/pytest", "chat", "--data-dir", "my data", "--config=a.toml", "--session", "last"]
    monkeypatch.setattr(sys, "argv", typed)
    assert command_line("sessions list") == "holdfast sessions list --data-dir 'my data' --config a.toml"


def test_a_start_says_what_it_does_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9: quiet when it works; and nothing at all where nobody watches."""
    show_step("Starting Holdfast")
    clear_step()
    assert not capsys.readouterr().err
    screen = Screen(80)
    with watched(monkeypatch) as terminal:
        monkeypatch.setattr(sys, "stderr", sys.stdout)
        show_step("Looking for models")
        show_step("Opening /data")
        screen.write(shown_on(terminal))
        assert screen.text == "Opening /data …"
        clear_step()
        screen.write(shown_on(terminal))
    assert not screen.text
