"""A home of hermes-agent in the shapes that its stores have, made anew for each test."""

import json
from pathlib import Path
from typing import Any

import apsw

SCHEMA = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, title TEXT, cwd TEXT, session_key TEXT,
    archived INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, observed INTEGER DEFAULT 0,
    _compressed_summary INTEGER NOT NULL DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0, display_kind TEXT, display_metadata TEXT
);
"""
OLD_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, started_at REAL NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL
);
"""
STARTED_S = 1_760_000_000.5
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
CALLS = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    {"type": "input_audio", "input_audio": {}},
]

# role, content, and what else a row holds
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You are Hermes."},
    {"role": "user", "content": "List the files."},
    {"role": "assistant", "content": "", "reasoning": "ls will do", "tool_calls": json.dumps(CALLS)},
    {"role": "tool", "content": "a.txt\nb.txt", "tool_call_id": "c1", "tool_name": "terminal"},
    {"role": "assistant", "content": "There are a.txt and b.txt."},
    {"role": "user", "content": "never mind", "active": 0},
    {"role": "user", "content": "\x00json:" + json.dumps(PARTS)},
    {"role": "assistant", "content": "A pixel."},
    {"role": "user", "content": "Are you still there?"},
]


def make_database(
    home: Path,
    sessions: dict[str, list[dict[str, Any]]],
    *,
    schema: str = SCHEMA,
    about: dict[str, dict[str, Any]] | None = None,
) -> None:
    """state.db with these sessions; `about` has further fields of their rows."""
    home.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(home / "state.db"))
    connection.execute(schema)
    for session_id, rows in sessions.items():
        fields = {"id": session_id, "source": "cli", "model": "nous/hermes-4", "started_at": STARTED_S}
        if schema is SCHEMA:
            fields |= {"title": f"About {session_id}", "cwd": "/nowhere/at/all"}
        fields |= (about or {}).get(session_id, {})
        _insert(connection, "sessions", fields)
        for index, row in enumerate(rows):
            _insert(connection, "messages", {"session_id": session_id, "timestamp": STARTED_S + index, **row})
    connection.close()


def _insert(connection: apsw.Connection, table: str, fields: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(fields))
    connection.execute(f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))  # noqa: S608


def make_page_session(home: Path, name: str, **more: Any) -> Path:
    """One JSON file of the web UI, beside its index."""
    folder = home / "webui" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_index.json").write_text("[]")
    session = {
        "session_id": name,
        "title": "From the page",
        "workspace": str(home),
        "model": "anthropic/claude",
        "created_at": STARTED_S,
        "updated_at": STARTED_S + 60,
        "pinned": True,
        "archived": False,
        "messages": [
            {"role": "user", "content": "Hello, page.", "timestamp": STARTED_S},
            {"role": "assistant", "content": "Hello, person.", "timestamp": STARTED_S + 1},
        ],
        "tool_calls": [],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(session | more))
    return path


def data_dir(home: Path) -> Path:
    """Where Holdfast keeps the data of the user whose home of hermes-agent this is."""
    return home.parent / ".local" / "share" / "holdfast"
