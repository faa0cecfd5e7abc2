"""The chat in a real terminal, on a server of its own and on one that runs."""

import asyncio
import signal
from pathlib import Path

import pytest

from cli.lab import READY, answered, chat, command, configure, left, serving, session_on
from cli.tmux import HOLDFAST, Terminal, terminal
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.cli.chat.commands import looks_like_command, names_command
from holdfast.policy.tool_names import ASK_USER

pytestmark = pytest.mark.long

KEYS = "y, n, a number, or ↑ ↓ and Enter"  # the keys count now


async def test_an_answer_is_told_in_markdown_and_the_way_back_is_said(tmp_path: Path) -> None:
    gate = Gate()
    answer = [
        Say("Some **bold** words.\n\n```python\nprint(1)\n"),
        Wait(gate),
        Say("print(2)\n```\n\nThe end."),
    ]
    async with ChaosServer(answer, [Say("again")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("hello there")
            await window.until("print(1)")
            gate.open()
            screen = await answered(window, "The end.")
            assert "> hello there" in screen
            assert "Some bold words." in screen
            assert "```" not in screen
            screen = await left(window)
            session_id = session_on(screen)
            assert screen.count("The end.") == screen.count("print(1)") == 1
        async with terminal(*chat(tmp_path, "--session", session_id), folder=tmp_path) as window:
            screen = await window.until("The end.")
            assert "> hello there" in screen
            await window.say("and now")
            await window.until("again")


async def test_ctrl_c_or_escape_twice_stops_the_run_and_ctrl_c_twice_leaves(tmp_path: Path) -> None:
    """P5: the run says that it was stopped, and the next message is answered."""
    halves = [[Say("a half"), Wait(Gate())], [Say("another half"), Wait(Gate())]]
    async with ChaosServer(*halves, [Say("a whole answer")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("hello")
            await window.until("a half")
            await window.keys("C-c")
            await window.until("You stopped this run")
            await window.say("again")
            await window.until("another half")
            await window.keys("Escape", "Escape")
            await window.until(lambda screen: screen.count("You stopped this run") == 2)
            await window.say("go on")
            await answered(window, "a whole answer")
            await window.keys("C-c", "C-c")
            await window.until("exit=0")
        assert chaos.seen.requests_seen == 3


async def test_who_presses_ctrl_c_twice_at_once_has_stopped_the_run(tmp_path: Path) -> None:
    """P5: it is not left to go on at the next start, and nobody is told that it does."""
    async with ChaosServer([Say("a half"), Wait(Gate())]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("hello")
            await window.until("a half")
            await window.keys("C-c", "C-c")
            screen = await window.until("exit=0")
            assert "To come back:" in screen
            assert "continues" not in screen
        async with terminal(*chat(tmp_path, "--session", session_on(screen)), folder=tmp_path) as window:
            await window.until("Stopped")


async def test_an_approval_is_asked_in_place_and_one_key_answers_it(tmp_path: Path) -> None:
    """P8: Enter alone and another letter allow nothing; what was half typed comes back."""
    ask = CallTool("shell", {"command": "touch made-by-the-tool"})
    gate = Gate()
    async with ChaosServer([Wait(gate), ask], [Say("all done")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("make it")
            await window.keys("half typed")
            await window.until("> half typed")
            gate.open()
            screen = await window.until(KEYS)
            assert "  touch made-by-the-tool\n" in screen
            assert "can change files" in screen
            assert "half typed" not in screen
            await window.keys("Enter")
            await window.say("x")
            await window.until(lambda screen: screen.count("Press y or n or a number") == 2)
            assert not await asyncio.to_thread((tmp_path / "made-by-the-tool").exists)
            await window.keys("y")
            screen = await window.until("all done")
            assert "allowed: once" in screen
            assert "✓ shell" in screen
            await window.until("> half typed")
            assert await asyncio.to_thread((tmp_path / "made-by-the-tool").exists)


async def test_the_server_is_killed_in_mid_answer_and_the_chat_goes_on_with_the_next_one(
    tmp_path: Path,
) -> None:
    """P6, P7: the chat says quietly that it reconnects, and the answer is there once."""
    gate = Gate()
    async with ChaosServer([Say("a half"), Wait(gate)], [Say("the whole answer")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with serving(tmp_path, end_with=signal.SIGKILL):
            window_of = terminal(*chat(tmp_path), folder=tmp_path)
            window = await window_of.__aenter__()
            await window.until(READY)
            await window.say("hello")
            await window.until("a half")
        try:
            await window.until("reconnecting")
            async with serving(tmp_path):
                screen = await answered(window, "the whole answer")
                assert "resumed after a crash" in screen
                assert "a half" not in screen
                assert "reconnecting" not in screen
        finally:
            await window_of.__aexit__(None, None, None)


async def test_the_window_is_closed_twice_and_the_session_is_opened_again_where_it_stood(
    tmp_path: Path,
) -> None:
    """P6, P7, P8: an open approval is asked again, and a half answer becomes a whole one."""
    script = [
        [CallTool("shell", {"command": "touch made"})],
        [Say("a half"), Wait(Gate())],
        [Say("the whole")],
    ]
    async with ChaosServer(*script) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("make it")
            await window.until("answer>")
        listed = (await command(tmp_path, "approvals", "list", "--json")).out
        assert "touch made" in listed
        again = chat(tmp_path, "--session", session_on(listed.replace('"', " ")))
        async with terminal(*again, folder=tmp_path) as window:
            await window.until(KEYS)
            await window.keys("Down", "Enter")
            await window.until("a half")
        assert await asyncio.to_thread((tmp_path / "made").exists)
        async with terminal(*again, folder=tmp_path) as window:
            screen = await window.until("the whole")
            assert "> make it" in screen
            assert "resumed" in screen.lower()  # live, or in the transcript


async def test_a_second_chat_attaches_to_the_first_and_sees_the_same(tmp_path: Path) -> None:
    """P7: one process owns the directory, and the others are its clients."""
    gate = Gate()
    async with ChaosServer([Say("one answer"), Wait(gate), Say(" for both")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with terminal(*chat(tmp_path), folder=tmp_path) as first:
            await first.until(READY)
            await first.say("hello")
            await first.until("one answer")
            listed = (await command(tmp_path, "sessions", "list", "--json")).out
            session_id = session_on(listed.replace('"', " "))
            async with terminal(*chat(tmp_path, "--session", session_id), folder=tmp_path) as second:
                await second.until("attached to http://127.0.0.1:")
                await second.until("one answer")
                gate.open()
                await second.until("one answer for both")
                await first.until("one answer for both")


async def helped(window: Terminal, folder: Path) -> None:
    """The greeting names the workspace; a wrong command and a question mark lead on."""
    await window.until(lambda screen: f"Agentsworkin{folder}" in "".join(screen.split()))
    await window.say("/helpp")
    await window.until("Unknown command: /helpp.")
    await window.say("?")
    await window.until("Ctrl-O show more of a tool's output")


async def compacted(window: Terminal) -> None:
    """The conversation is summarized, and a second time there is nothing to do."""
    await window.say("/compact hosts")
    screen = await window.until("the earlier conversation was summarized for the model: about")
    assert screen.count("> /compact hosts") == 1
    await window.say("/compact")
    await window.until("Nothing to compact")


async def exported(window: Terminal, folder: Path) -> None:
    await window.say("/export talk.md")
    await window.until("Saved to")
    assert "third" in await asyncio.to_thread((folder / "talk.md").read_text)
    await window.say("/export talk.md")
    await window.until("talk.md already exists. Choose another name")


async def model_chosen(window: Terminal) -> None:
    await window.say("/model nope")
    await window.until("no target has the name or model nope; the targets are main")
    await window.say("/model main")
    await window.until("The next messages go to main.")


async def retried(window: Terminal, *, times: int) -> None:
    await window.say("/retry")
    await window.until(lambda screen: screen.count("the last answer was removed") == times)


async def test_without_arguments_it_is_the_chat_with_questions_and_slash_commands(tmp_path: Path) -> None:
    gate = Gate()
    ask = CallTool(ASK_USER, {"text": "Which colour?", "choices": ["red", "blue"]})
    where = CallTool(ASK_USER, {"text": "Which file?"})
    answers = [[Say(one)] for one in ("second", "third", "third again", "## Task\nit was all about hosts")]
    script = [[Say("first"), Wait(gate)], *answers, [ask], [where], [Say("fourth")]]
    async with ChaosServer(*script) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        bare = ("env", f"HOLDFAST_CONFIG={tmp_path}/holdfast.toml", *HOLDFAST)
        async with terminal(*bare, folder=tmp_path) as window:
            await window.until(READY)
            await helped(window, tmp_path)
            await window.say("/etc/hosts is wrong")
            await window.until("first")
            await window.say("/queue two")
            await window.until("1 message queued")
            await window.say("/queue")
            await window.until("1. two")
            gate.open()
            await answered(window, "second")
            await retried(window, times=1)
            await answered(window, "third")
            await exported(window, tmp_path)
            await window.say("/fork")
            screen = await window.until("You are now in a copy")
            assert screen.count("> /etc/hosts is wrong") == 1, "nothing is printed again"
            await retried(window, times=2)
            await answered(window, "third again")
            await compacted(window)
            await window.say("/sessions")
            screen = await window.until("Sessions (2)")
            assert "open here · just now" in screen
            await window.keys("Escape")
            await window.until(lambda screen: "Sessions (2)" not in screen)
            await model_chosen(window)
            await window.say("/new")
            await window.say("paint it")
            await window.until("2. blue")
            await window.until("or your own answer")
            await window.keys("2")
            await window.until("type your answer")
            await window.say("/etc")
            await answered(window, "fourth")
            assert all(said in str(chaos.seen.requests[-1].body) for said in ("blue", "/etc"))
            assert "/etc/hosts is wrong" in str(chaos.seen.requests[0].body)
            screen = await left(window)
            assert "-mholdfastchat--sessionses_" in "".join(screen.split()), "wherever the line is wrapped"


async def test_a_file_is_attached_and_the_last_message_is_edited_with_it(tmp_path: Path) -> None:
    async with ChaosServer([Say("barnacles")], [Say("second")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        await asyncio.to_thread((tmp_path / "notes.txt").write_text, "the walrus was here")
        await asyncio.to_thread((tmp_path / ".env").write_text, "KEY=1")
        async with terminal(*chat(tmp_path), folder=tmp_path) as window:
            await window.until(READY)
            await window.say("/attach .env")
            await window.until("might contain secrets")
            await window.say("/attach notes.txt")
            await window.until("Attached to your next message: notes.txt")
            await window.say("read it")
            await answered(window, "barnacles")
            await window.keys("Escape", "Escape")
            await window.until("edit> read it")
            await window.say(" twice")
            await answered(window, "second")
            await window.say("/cost")
            await window.until("tokens out")
            await window.say("/status")
            await window.until("your key chat, approve, admin, relay")
        told = str(chaos.seen.requests[-1].body)
    assert "read it twice" in told
    assert "the walrus was here" in told
    assert "barnacles" not in told, "the answer to the replaced message does not count"


@pytest.mark.parametrize(
    ("line", "is_one", "named"),
    [
        ("/help", True, True),
        ("/queue two words", True, True),
        ("/quit", True, True),
        ("?", True, False),
        ("? what", False, False),
        ("/hel", True, False),
        ("/", True, False),
        ("/etc/hosts is wrong", False, False),
        ("/etc/hosts", False, False),
        ("/etc", True, False),
        ("hello /help", False, False),
        ("", False, False),
    ],
)
def test_a_path_is_no_command_and_only_a_whole_name_comes_before_an_answer(
    line: str, *, is_one: bool, named: bool
) -> None:
    assert (looks_like_command(line), names_command(line)) == (is_one, named)
