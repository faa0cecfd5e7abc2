"""`holdfast import claude-code`, `import codex` and `rescue`: transcripts become sessions, damaged or not."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.cli.sessions import from_store
from holdfast.features.transcripts.claude_code import read_claude_code
from holdfast.features.transcripts.codex import read_codex
from holdfast.features.transcripts.command import import_from, rescue_file
from holdfast.features.transcripts.conversation import ImportedConversation, ImportedMessage
from holdfast.features.transcripts.records import Losses
from holdfast.folds import session, transcript
from holdfast.folds.entries import Ending, Person, Text, Thinking, ToolCard
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from runner.program import configure, program
from tables import for_each_row

SAMPLES = Path(__file__).with_name("samples")
CLAUDE_ID = "claude-code-d4af6ce2-2f8b-4047-9d69-8c59361c4916"
CODEX_ID = "codex-01a1f3eb-48f9-7190-bd82-050e51884b03"
KEY = "sk-ant-a1b2c3d4e5f6g7h8i9j0"

Read = Callable[[Path, Losses], ImportedConversation | None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with a session of each program, as they wrote it."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    claude = tmp_path / ".claude" / "projects" / "-home-me-project"
    codex = tmp_path / ".codex" / "sessions" / "2026" / "11" / "19"
    for folder, sample in ((claude, "claude_code"), (codex, "codex")):
        folder.mkdir(parents=True)
        shutil.copy(SAMPLES / f"{sample}.jsonl", folder / "rollout.jsonl")
    return tmp_path


def seen(home: Path, session_id: str) -> Transcript:
    """The transcript of an imported session, whose log is legal."""
    state, found = Session(), Transcript()
    log = asyncio.run(from_store(session_id, home / ".local" / "share" / "holdfast"))
    for seq, event in log:
        session.apply(state, seq, event)
        transcript.apply(found, seq, event)
    assert not state.open_runs
    return found


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def of_claude(
    number: int, role: str, content: Any, *, after: int | None = None, **more: Any
) -> dict[str, Any]:
    """A line of Claude Code that follows the one before it, or another one."""
    parent = number - 1 if after is None else after
    message = {"role": role, "content": content} | more.pop("message", {})
    about = {"uuid": f"u{number}", "parentUuid": f"u{parent}" if parent else None, "sessionId": "s"}
    return about | {"type": role, "message": message, "isSidechain": False} | more


def of_codex(payload: dict[str, Any], kind: str = "response_item") -> dict[str, Any]:
    return {"timestamp": "2026-11-19T13:00:00.000Z", "type": kind, "payload": payload}


def said(text: str, role: str = "user") -> dict[str, Any]:
    """An item of Codex."""
    part = "input_text" if role == "user" else "output_text"
    return of_codex({"type": "message", "role": role, "content": [{"type": part, "text": text}]})


def read(kind: Read, folder: Path, text: str | bytes) -> tuple[tuple[ImportedMessage, ...], list[str]]:
    path = folder / "t.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    losses = Losses()
    found = kind(path, losses)
    return (found.messages if found else ()), losses.texts


def texts(messages: Sequence[ImportedMessage]) -> list[str]:
    return [message.text for message in messages]


@for_each_row("program, session_id", [("claude-code", CLAUDE_ID), ("codex", CODEX_ID)])
def test_a_session_becomes_a_log_that_every_fold_reads(home: Path, program: Any, session_id: str) -> None:
    """P7: messages, thoughts, tool calls and results; the file stays as it was, and a repeat adds nothing."""
    before = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
    for _ in range(2):
        assert import_from(program, None, {}, how="do", keep_workspaces=False) == 0
    assert {path: path.read_bytes() for path in home.rglob("*.jsonl")} == before
    entries = seen(home, session_id).entries
    assert next(one.message.text for one in entries if isinstance(one, Person)) == "Describe app.py."
    assert len([one for one in entries if isinstance(one, Person)]) == 2
    assert [one.text for one in entries if isinstance(one, Thinking)]
    cards = [one for one in entries if isinstance(one, ToolCard)]
    assert 'print("hello")' in cards[0].result
    assert {one.outcome for one in entries if isinstance(one, Ending)} == {"completed"}
    assert [one.text for one in entries if isinstance(one, Text)][-1].startswith("It prints")


async def test_an_imported_session_is_found_and_continued(home: Path) -> None:
    """P6, P8: its tool calls are history: they run nothing and grant nothing."""
    data = {"data_dir": str(home / "data")}
    assert await asyncio.to_thread(import_from, "codex", None, data, how="do", keep_workspaces=False) == 0
    async with ChaosServer(choose=lambda _: [Say("again")]) as chaos:
        configure(home, chaos.base_url)
        async with program(home) as server:
            _, found = await server.call("GET", "/api/sessions?q=hello")
            assert CODEX_ID in json.dumps(found)
            run_id = await server.start("and now?", session_id=CODEX_ID)
            assert (await server.until(run_id, "run.ended")).data["outcome"] == "completed"
            sent = json.dumps(chaos.seen.requests[-1].body)
            assert "Describe app.py." in sent
            assert "cat app.py" in sent
            _, grants = await server.call("GET", "/api/approvals/rules?sessions=all")
            assert grants["data"] == []


@for_each_row("kind, sample", [(read_claude_code, "claude_code"), (read_codex, "codex")])
def test_a_transcript_cut_at_any_byte_keeps_what_is_before(tmp_path: Path, kind: Read, sample: str) -> None:
    """P6: a program that dies while it writes loses one line at most."""
    whole = (SAMPLES / f"{sample}.jsonl").read_bytes()
    complete, losses = read(kind, tmp_path, whole)
    assert losses == []
    ends = [place + 1 for place, char in enumerate(whole) if char == ord("\n")]
    for cut in (*range(ends[-4], ends[-3]), *range(0, ends[-4], 97)):
        rest, losses = read(kind, tmp_path, whole[:cut])
        assert len(losses) == (cut not in {0, *ends} and cut + 1 not in ends)
        assert texts(rest) == texts(complete)[: len(rest)] or len(rest) <= len(complete)


@for_each_row("kind, sample", [(read_claude_code, "claude_code"), (read_codex, "codex")])
def test_damage_in_the_middle_costs_only_the_damaged_lines(tmp_path: Path, kind: Read, sample: str) -> None:
    whole = (SAMPLES / f"{sample}.jsonl").read_bytes()
    complete, _ = read(kind, tmp_path, whole)
    first, second, third, rest = (*whole.split(b"\n", 3),)
    torn = first[:40] + second + b"\n" + bytes(4096) + b"\n" + b"\xff\xfe" + third + b"\n" + rest
    found, losses = read(kind, tmp_path, torn)
    assert texts(found) == texts(complete)
    assert len(losses) >= 2
    assert "zero bytes" in losses[1]
    assert "1 records in it are intact" in losses[0]


def test_concurrent_calls_branches_and_sub_agents_of_claude_code(tmp_path: Path) -> None:
    """The newest branch is the conversation; each result of concurrent calls is in another branch."""
    call: dict[str, Any] = {"type": "tool_use", "name": "Read", "input": {}}
    text = lines(
        of_claude(1, "user", "first"),
        of_claude(2, "assistant", [{"type": "text", "text": "left"}]),
        of_claude(3, "user", "edited", after=0),
        of_claude(4, "assistant", [call | {"id": "a"}], message={"id": "m"}),
        of_claude(5, "assistant", [call | {"id": "b"}], message={"id": "m"}),
        of_claude(6, "user", [{"type": "tool_result", "tool_use_id": "a", "content": "A"}], after=4),
        of_claude(7, "user", [{"type": "tool_result", "tool_use_id": "b", "is_error": True}], after=5),
        of_claude(8, "user", "for a sub-agent", isSidechain=True),
        of_claude(9, "assistant", [{"type": "text", "text": "done"}], after=7),
        of_claude(10, "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
    )
    found, losses = read(read_claude_code, tmp_path, text)
    assert texts(found) == ["edited", "", "A", "", "done"]
    assert [call.call_id for call in found[1].tool_calls] == ["a", "b"]
    assert [message.ok for message in found if message.role == "tool"] == [True, False]
    assert found[-1].ending == "partial"
    assert losses == [
        "1 messages of sub-agents aren't imported",
        "2 messages of branches that were left aren't imported",
    ]
    assert read_claude_code(tmp_path / "t.jsonl", Losses()).title == "Mine"  # type: ignore[union-attr]


def test_commands_notes_and_summaries_of_claude_code(tmp_path: Path) -> None:
    """Notes of the program aren't the person's words."""
    text = lines(
        of_claude(1, "user", "<system-reminder>\nnote\n</system-reminder>\nhello"),
        of_claude(2, "assistant", "hi"),
        of_claude(3, "user", "<command-name>/model</command-name>\n<command-args>opus</command-args>"),
        of_claude(4, "user", "<local-command-stdout>set</local-command-stdout>"),
        of_claude(5, "user", "hidden", isMeta=True),
        {"type": "system", "uuid": "u6", "parentUuid": None, "logicalParentUuid": "u5", "sessionId": "s"},
        of_claude(7, "user", "This session is being continued", isCompactSummary=True),
        of_claude(8, "assistant", [{"type": "text", "text": "Overloaded"}], isApiErrorMessage=True),
    )
    found, losses = read(read_claude_code, tmp_path, text)
    assert texts(found) == ["hello", "hi", "/model opus", "Overloaded"]
    assert found[-1].ending == "failed"
    assert losses == []


def test_rollbacks_errors_and_early_forms_of_codex(tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"}
    output = {"content": "no", "success": False}
    text = lines(
        {"id": "old", "timestamp": "2026-01-01T00:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "early"}]},
        said("<environment_context>\n</environment_context>"),
        said("# AGENTS.md instructions for /x"),
        of_codex(call),
        of_codex({"type": "function_call_output", "call_id": "c", "output": output}),
        said("rolled back"),
        said("gone", "assistant"),
        of_codex({"type": "thread_rolled_back", "num_turns": 1}, "event_msg"),
        said("half", "assistant"),
        of_codex({"type": "turn_aborted"}, "event_msg"),
        said("next"),
        of_codex({"type": "error", "message": "limit reached"}, "event_msg"),
        of_codex({"type": "thread_name_updated", "thread_name": "Named"}, "event_msg"),
    )
    found, losses = read(read_codex, tmp_path, text)
    assert texts(found) == ["early", "", "no", "half", "next", "limit reached"]
    assert [message.ending for message in found] == ["", "", "", "partial", "", "failed"]
    assert found[1].tool_calls[0].args == {"command": ["ls"]}
    assert not found[2].ok
    assert losses == ["2 messages that were rolled back aren't imported"]
    conversation = read_codex(tmp_path / "t.jsonl", Losses())
    assert conversation is not None
    assert (conversation.session_id, conversation.title) == ("codex-old", "Named")
    sub_agent = of_codex({"id": "x", "source": {"subagent": "review"}}, "session_meta")
    assert read(read_codex, tmp_path, lines(sub_agent, said("task"))) == (
        (),
        ["it's the work of a sub-agent, which isn't imported"],
    )


def test_hostile_transcripts_harm_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P11, P12: keys are removed, ids can't leave the store, and half characters are replaced."""
    bad = home / "bad.jsonl"
    call = {"type": "function_call", "name": "sh", "arguments": json.dumps({"k": KEY}), "call_id": "c"}
    bad.write_text(
        lines(
            of_codex({"id": "x" + "../" * 3}, "session_meta"),
            said(f"my key is {KEY}"),
        )
    )
    assert rescue_file(str(bad), {}, how="do") == 0
    assert "skipped: 1 session with an unusable id" in capsys.readouterr().out
    deep = "[" * 100_000
    bad.write_text(
        lines(
            of_codex({"id": "fine", "cwd": "/etc"}, "session_meta"),
            said(f"my key is {KEY} \ud800"),
            of_codex(call),
            of_codex({"type": "function_call_output", "call_id": "c", "output": KEY * 2_000}),
        )
        + deep
    )
    assert rescue_file(str(bad), {}, how="do") == 0
    assert "line 5 is damaged" in capsys.readouterr().out
    assert import_from("codex", str(home), {}, how="do", keep_workspaces=True) == 1
    data = home / ".local" / "share" / "holdfast"
    assert not any(KEY.encode() in path.read_bytes() for path in data.rglob("*") if path.is_file())
    log = asyncio.run(from_store("codex-fine", data))
    created = log[0][1]
    assert isinstance(created, e.SessionCreated)
    assert (created.workspace, created.source) == ("", "codex")


def test_a_file_that_is_no_transcript_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P3, P12."""
    (home / "notes.txt").write_text("hello\n" * 10)
    os.mkfifo(home / "fifo.jsonl")
    for name, why in (
        ("notes.txt", "found no messages"),
        ("none.jsonl", "No such file"),
        ("fifo.jsonl", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
    ):
        assert rescue_file(name, {}, how="do") == 1
        assert why in capsys.readouterr().err
    assert not (home / ".local").exists()
    os.mkfifo(home / ".codex" / "sessions" / "rollout.jsonl")
    assert import_from("codex", None, {}, how="try", keep_workspaces=False) == 0
    assert "can't read the file: it is not a regular file" in capsys.readouterr().out
