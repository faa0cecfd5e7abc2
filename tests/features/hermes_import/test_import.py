"""`holdfast import hermes`: conversations become logs that every fold reads; the old home stays as it was."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from features.hermes_import.home import (
    OLD_SCHEMA,
    STARTED_S,
    TALK,
    data_dir,
    make_database,
    make_page_session,
)
from holdfast import events as e
from holdfast.cli.sessions import from_store
from holdfast.features.hermes_import.command import import_hermes
from holdfast.features.hermes_import.sessions import HermesSessions
from holdfast.features.memory.memories import user_scope
from holdfast.features.memory.state import fold
from holdfast.features.skills.folders import skill_file
from holdfast.features.skills.library import SkillLibrary
from holdfast.folds import session, transcript
from holdfast.folds.context import context_for
from holdfast.folds.entries import Ending, Person, Text, ToolCard
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.host.lock import DirectoryLock
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.messages import AssistantMessage, ToolMessage, UserMessage


def log_of(home: Path, session_id: str) -> Sequence[tuple[int, e.Event]]:
    return asyncio.run(from_store(session_id, data_dir(home)))


def contents(folder: Path) -> dict[str, str]:
    """Every file with the digest of its bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_conversation_becomes_a_log_that_every_fold_reads(home: Path) -> None:
    """P7: tools, thoughts, images and answers stand in the transcript and in what the model is shown."""
    make_database(home, {"s1": TALK})
    assert import_hermes(None, {}, how="do") == 0
    log = log_of(home, "s1")
    state, seen = Session(), Transcript()
    for seq, event in log:
        session.apply(state, seq, event)
        transcript.apply(seen, seq, event)
    entries = seen.entries
    assert [one.message.text for one in entries if isinstance(one, Person)] == [
        "List the files.",
        "What is this?",
        "Are you still there?",
    ]
    assert [one.text for one in entries if isinstance(one, Text)] == [
        "There are a.txt and b.txt.",
        "A pixel.",
    ]
    (tool,) = [one for one in entries if isinstance(one, ToolCard)]
    assert (tool.name, tool.args, tool.result) == ("terminal", {"command": "ls"}, "a.txt\nb.txt")
    assert [one.outcome for one in entries if isinstance(one, Ending)][-1] == "interrupted"
    assert [run.outcome for run in state.runs.values()] == ["completed", "completed", "interrupted"]
    assert not state.open_runs
    created = log[0][1]
    assert isinstance(created, e.SessionCreated)
    assert (created.title, created.source, created.at_ms) == ("About s1", "hermes", round(STARTED_S * 1000))
    first, second, _ = (context_for(seen, run_id) for run_id in state.runs)
    assert [type(message) for message in first] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        AssistantMessage,
    ]
    assert isinstance(second[-2], UserMessage)
    assert len(second[-2].parts) == 1


def test_what_is_in_both_stores_is_taken_once_and_the_page_has_the_last_word(home: Path) -> None:
    make_database(home, {"both": TALK[1:2], "bare": [{"role": "assistant", "content": "hi"}]})
    make_page_session(home, "both")
    assert import_hermes(None, {}, how="do") == 0
    texts = [event.text for _, event in log_of(home, "both") if isinstance(event, e.TextDone)]
    assert texts == ["Hello, person."]
    assert isinstance(log_of(home, "both")[-1][1], e.SessionPinned)
    assert not log_of(home, "bare")


def test_a_second_import_adds_nothing_and_the_old_home_is_untouched(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_database(home, {"s1": TALK})
    make_page_session(home, "s2")
    before = contents(home)
    assert import_hermes(str(home), {}, how="try") == 0
    assert "2 sessions imported, 0 already there" in capsys.readouterr().out
    assert not data_dir(home).exists()
    assert import_hermes(str(home), {}, how="do") == 0
    first = log_of(home, "s1")
    capsys.readouterr()
    assert import_hermes(str(home), {}, how="do") == 0
    assert "0 sessions imported, 2 already there" in capsys.readouterr().out
    assert log_of(home, "s1") == first
    assert contents(home) == before


def test_a_write_ahead_log_that_was_left_is_read_from_a_copy(home: Path) -> None:
    make_database(home, {"s1": TALK[:2]})
    writing = apsw.Connection(str(home / "state.db"))
    writing.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    writing.pragma("journal_mode", "wal")
    writing.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'assistant', 'x', 1)"
    )
    before = contents(home)
    assert f"{home}/state.db-wal" in before
    (found,) = HermesSessions(home).read()
    assert [message.role for message in found.messages] == ["system", "user", "assistant"]
    assert contents(home) == before
    writing.close()


def test_an_older_version_of_the_store_is_read_as_far_as_it_goes(home: Path) -> None:
    make_database(
        home,
        {"old": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]},
        schema=OLD_SCHEMA,
    )
    (found,) = HermesSessions(home).read()
    assert [message.text for message in found.messages] == ["hi", "ho"]


def test_what_cannot_be_read_or_taken_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P12: a broken store or file costs nothing but itself."""
    (home / "state.db").write_bytes(b"this is no database" * 60)
    make_page_session(home, "good")
    make_page_session(home, "bad").write_text("{")
    make_page_session(home, "other", session_id="a/b")
    assert import_hermes(None, {}, how="do") == 0
    out = capsys.readouterr().out
    assert "1 session imported" in out
    assert "state.db: can't read the file" in out
    assert "bad.json: can't read the file" in out
    assert "1 session with an unusable id" in out


def test_a_directory_that_is_served_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_database(home, {"s1": TALK})
    with DirectoryLock(data_dir(home)) as lock:
        lock.announce("http://127.0.0.1:8642")
        assert import_hermes(None, {}, how="do") == 1
        assert "http://127.0.0.1:8642" in capsys.readouterr().err
        assert import_hermes(None, {}, how="try") == 0
    assert not (data_dir(home) / "holdfast.db").exists()
    for gone in ("none", "x" * 300):
        assert import_hermes(str(home / gone), {}, how="do") == 1


LOCAL = "model: {default: m, provider: custom, base_url: 'http://127.0.0.1:11434/v1', api_key: ollama}\n"
HEADED = (
    "model: {default: m, provider: p}\nproviders: {p: {base_url: 'https://h.example.com/v1', "
    "extra_headers: {X-Title: the walrus project, Authorization: Bearer abc-of-a-header}}}\n"
)


@pytest.mark.parametrize(
    ("config", "said", "kept"),
    [
        ("model: {default: m, provider: openrouter}\n", "it is sk-or-a-secret-of-mine", "it is [redacted]"),
        (LOCAL, "it is ghp_of_another_program", "it is [redacted]"),
        (LOCAL, "it runs in ollama, says true", "it runs in ollama, says true"),
        (HEADED, "the walrus project has abc-of-a-header", "the walrus project has [redacted]"),
    ],
    ids=["a target's", "nobody's", "a word", "a header's"],
)
def test_a_key_that_somebody_wrote_into_a_conversation_is_not_taken_along(
    home: Path, config: str, said: str, kept: str
) -> None:
    """P11: no key that is found is in a log, and no ordinary word is lost."""
    env = "OPENROUTER_API_KEY=sk-or-a-secret-of-mine\nGITHUB_TOKEN=ghp_of_another_program\nAUTH_TOKEN=true\n"
    (home / ".env").write_text(env)
    (home / "config.yaml").write_text(config)
    make_database(home, {"s1": [{"role": "user", "content": said}]})
    assert import_hermes(None, {}, how="do") == 0
    (message,) = [event for _, event in log_of(home, "s1") if isinstance(event, e.MessageAccepted)]
    assert message.text == kept


def test_a_long_tool_result_is_kept_whole_as_a_blob(home: Path) -> None:
    rows = [dict(row) for row in TALK[1:5]]
    rows[2]["content"] = "x" * 100_000
    make_database(home, {"s1": rows})
    assert import_hermes(None, {}, how="do") == 0
    (ended,) = [event for _, event in log_of(home, "s1") if isinstance(event, e.ToolEnded)]
    assert len(ended.result) < 40_000
    blob = data_dir(home) / "blobs" / ended.blob[:2] / ended.blob
    assert blob.read_bytes() == b"x" * 100_000


async def test_imported_sessions_are_listed_and_found(home: Path) -> None:
    await asyncio.to_thread(make_page_session, home, "s2")
    assert await asyncio.to_thread(import_hermes, None, {}, how="do") == 0
    reader = SqliteReader(data_dir(home) / "holdfast.db")
    row = await reader.session("s2")
    hits = await reader.search("person")
    await reader.close()
    assert row is not None
    assert (row.title, row.pinned, row.workspace, row.messages) == ("From the page", True, str(home), 1)
    assert [hit.session_id for hit in hits] == ["s2"]


HERMES_SKILL = """---
name: axolotl
description: "Fine-tune models: LoRA, DPO, GRPO."
version: 1.0.0
author: Ann
license: MIT
platforms: [linux, macos]
dependencies: [axolotl, torch]
metadata:
  hermes:
    tags: [Fine-Tuning, LoRA]
    related_skills: [unsloth]
---

# Axolotl
"""


def test_skills_and_memories_come_along_and_a_second_import_adds_nothing(home: Path) -> None:
    skill = home / "skills" / "writing" / "release-notes"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(skill_file("release-notes", "Write them.", "Steps."))
    (skill / "scripts" / "go.sh").write_text("echo ok")
    nested = home / "skills" / "mlops" / "training" / "axolotl"
    nested.mkdir(parents=True)
    (nested / "SKILL.md").write_text(HERMES_SKILL)
    odd = home / "skills" / "Odd_One"
    odd.mkdir()
    (odd / "SKILL.md").write_text("no fields")
    (home / "memories").mkdir()
    (home / "memories" / "USER.md").write_text("likes tea\n§\nlives in Rome")
    (home / "memories" / "MEMORY.md").write_text("x" * 5_000)
    before = contents(home)
    for _ in range(2):
        assert import_hermes(None, {}, how="do") == 0
    assert contents(home) == before
    own = home.parent / ".config" / "holdfast" / "skills"
    assert {path.removeprefix(str(own)) for path in contents(own)} == {
        "/hermes/Odd_One/SKILL.md",
        "/hermes/mlops/training/axolotl/SKILL.md",
        "/hermes/writing/release-notes/SKILL.md",
        "/hermes/writing/release-notes/scripts/go.sh",
    }
    found = SkillLibrary(own=own).find(home, {})
    assert {name: skill.category for name, skill in found.usable.items()} == {
        "axolotl": "mlops",
        "release-notes": "writing",
    }
    memory = fold(log_of(home, user_scope("first").log_id))
    assert memory.document == "- likes tea\n- lives in Rome"
    assert sum(len(text) for text in memory.notes.values()) == 5_002
    assert len(memory.history) == 3


def test_links_that_lead_out_of_the_home_are_reported_and_not_followed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P11: a home from someone else can't make a private key part of memory or of the configuration."""
    outside = tmp_path / "outside"
    (outside / "skills" / "s").mkdir(parents=True)
    (outside / "skills" / "s" / "SKILL.md").write_text(skill_file("s", "Private.", "Private."))
    (outside / "key").write_text("PRIVATE KEY")
    make_database(outside, {"s1": TALK})
    make_page_session(outside, "s2", messages=[{"role": "user", "content": "private"}])
    links = {
        "MEMORY.md": "key", "USER.md": "key", ".env": "key", "config.yaml": "key", "auth.json": "key",
        "state.db": "state.db", "skills": "skills", "webui": "webui",
    }  # fmt: skip
    for name, target in links.items():
        (home / name).symlink_to(outside / target)
    (home / "cron").mkdir()
    (home / "cron" / "jobs.json").symlink_to(outside / "key")
    assert import_hermes(None, {}, how="do") == 0
    told = capsys.readouterr().out
    assert told.count("outside the imported folder") == len(links) + 1
    assert "0 sessions imported" in told
    assert not (home.parent / ".config" / "holdfast" / "skills").exists()
    assert log_of(home, user_scope("first").log_id) == []


NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS_SESSIONS = f"CREATE VIEW sessions AS {NUMBERS} SELECT i AS id FROM n"  # noqa: S608
ENDLESS_MESSAGES = f"""CREATE TABLE sessions(id); INSERT INTO sessions VALUES (1);
CREATE VIEW messages AS {NUMBERS} SELECT i AS session_id, 'user' AS role FROM n"""  # noqa: S608
MANY_SESSIONS = f"""CREATE TABLE sessions(id); CREATE TABLE messages(session_id, role);
{NUMBERS} INSERT INTO sessions SELECT i FROM n LIMIT 30000"""  # noqa: S608


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (ENDLESS_SESSIONS, "no table named sessions"),
        (ENDLESS_MESSAGES, "no table named messages"),
        (MANY_SESSIONS, "too long for its size"),
    ],
    ids=["view of sessions", "view of messages", "too many queries"],
)
def test_a_database_that_never_ends_is_given_up(
    home: Path, capsys: pytest.CaptureFixture[str], schema: str, why: str
) -> None:
    """P3: reading a state.db ends, whatever it defines."""
    connection = apsw.Connection(str(home / "state.db"))
    connection.execute(schema)
    connection.close()
    assert import_hermes(None, {}, how="try") == 0
    assert why in capsys.readouterr().out
