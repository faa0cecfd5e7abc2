"""Commands that users write, in the terminal chat, over HTTP and in messengers."""

from pathlib import Path

import pytest

from cli.lab import READY, answered, chat, configure
from cli.tmux import terminal
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, until
from holdfast.chaos import ChaosServer, Say
from runner.program import configure as configure_program
from runner.program import program
from serving import said_to

CHANNEL = """
[[channels]]
name = "tg"
kind = "telegram"
token = "{token}"
base_url = "{url}"
allow = ["{user}"]
"""
REVIEW = "---\ndescription: Review a file\nargument-hint: FILE\n---\nReview $1 with care."


async def test_a_command_is_listed_and_sent_in_the_terminal(tmp_path: Path) -> None:
    own = tmp_path / ".config" / "holdfast" / "commands"
    own.mkdir(parents=True)
    (own / "review.md").write_text(REVIEW)
    (own / "stop.md").write_text("hidden")
    async with ChaosServer([Say("looks good")]) as chaos:
        configure(tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/help")
            await window.until("/review")
            await window.say("/revue a.py")
            await window.until("Unknown command")
            await window.say("/review a.py")
            screen = await answered(window, "looks good")
            assert "> Review a.py with care." in screen
        assert said_to(chaos, nth=1)[-1] == "Review a.py with care."


async def test_a_command_in_a_messenger_and_over_http_becomes_the_same_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P12: an unknown command gets a clear error over HTTP, and is a message in a chat, as ever."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "holdfast" / "commands"
    own.mkdir(parents=True)
    (own / "review.md").write_text(REVIEW)
    answers = [[Say("looks good")], [Say("what?")]]
    async with FakeTelegram() as telegram, ChaosServer(*answers) as chaos:
        configure_program(tmp_path, chaos.base_url, sandbox="off")
        with (tmp_path / "holdfast.toml").open("a", encoding="utf-8") as file:
            file.write(CHANNEL.format(token=telegram.token, url=telegram.url, user=ME))
        async with program(tmp_path) as server:
            status, listed = await server.call("GET", "/v1/commands")
            assert (status, [one["name"] for one in listed["data"]]) == (200, ["review"])
            body = {"arguments": "a.py"}
            status, made = await server.call("POST", "/v1/commands/review/expand", body)
            assert (status, made["text"]) == (200, "Review a.py with care.")
            status, refused = await server.call("POST", "/v1/commands/nothing/expand", body)
            assert (status, refused["error"]["code"]) == (404, "command_not_found")
            telegram.world.say(ME, "/review a.py")
            await until(telegram, lambda: "looks good" in str(telegram.world.chat(ME).texts()))
            telegram.world.say(ME, "/nothing a.py")
            await until(telegram, lambda: "what?" in str(telegram.world.chat(ME).texts()))
        assert said_to(chaos, nth=1)[-1] == "Review a.py with care."
        assert said_to(chaos, nth=2)[-1] == "/nothing a.py"
