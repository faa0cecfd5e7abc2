"""The conversations in hermes-agent's state.db: each once and whole, however often it was compacted."""

import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

import apsw
from msgspec import Struct

from holdfast.features.hermes_import.home_files import path_in_home
from holdfast.features.hermes_import.messages import (
    PROGRAM,
    SOURCE,
    is_summary,
    json_of,
    message_of,
    ms_of,
    table_of,
    title_of,
)
from holdfast.features.transcripts.conversation import ImportedConversation, ImportedMessage

DATABASE = "state.db"
# A database from elsewhere can make a query endless. A full scan takes about 5 steps per byte.
STEPS_MIN = 200_000_000
STEPS_PER_BYTE = 200
STEPS_PER_LOOK = 10_000
TOO_LONG = "reading it takes too long for its size"
CHAIN_MAX = 1000  # how often a conversation can have been continued in a new session
SESSION_COLUMNS = (
    *("id", "title", "model", "cwd", "started_at", "archived", "pinned", "hidden"),
    *("parent_session_id", "end_reason", "model_config", "session_key"),
)
# The identity of a message: a compaction writes the newest ones again.
IDENTITY = ("role", "content", "timestamp", "tool_call_id", "tool_calls", "tool_name")
MESSAGE_COLUMNS = (
    *IDENTITY,
    *("reasoning", "reasoning_content", "active", "compacted", "_compressed_summary", "display_metadata"),
)
# Questions that some versions asked themselves.
OWN_QUESTIONS = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
)

Row: TypeAlias = Mapping[str, object]
Kind: TypeAlias = Literal["conversation", "continuation", "helper"]


def sessions_of(path: Path) -> Iterator[ImportedConversation]:
    """All conversations of a database, one at a time; raises apsw.Error or OSError."""
    with _opened(path) as connection:
        database = _Database(connection, steps_left=max(STEPS_MIN, STEPS_PER_BYTE * path.stat().st_size))
        known = {
            str(row["id"]): row for row in database.rows("sessions", SESSION_COLUMNS, where="?", value=1)
        }
        kinds: dict[str, Kind] = {session_id: _kind(row, known) for session_id, row in known.items()}
        continued = {
            _parent(known[session_id]) for session_id, kind in kinds.items() if kind == "continuation"
        }
        for session_id, row in known.items():
            if session_id not in continued:
                chain = _chain(row, known, kinds=kinds)
                messages = list(_messages(database, chain))
                yield _session(chain, messages, origin=str(path), kind=kinds[str(chain[0]["id"])])


def _session(
    chain: list[Row], messages: list[ImportedMessage], *, origin: str, kind: Kind
) -> ImportedConversation:
    last = chain[-1]
    titles = [title_of(row.get("title")) for row in reversed(chain)]
    return ImportedConversation(
        session_id=str(last["id"]),
        program=PROGRAM,
        source=SOURCE,
        messages=tuple(messages),
        title=next((title for title in titles if title), ""),
        model=str(last.get("model") or ""),
        workspace=str(last.get("cwd") or ""),
        pinned=bool(last.get("pinned")),
        archived=bool(last.get("archived")) or bool(last.get("hidden")) or kind == "helper",
        created_ms=ms_of(chain[0].get("started_at")),
        origin=origin,
        earlier=frozenset(str(row["id"]) for row in chain[:-1]),
    )


def _parent(row: Row) -> str:
    return str(row.get("parent_session_id") or "")


def _kind(row: Row, known: Mapping[str, Row]) -> Kind:
    """Return the kind of a session: independent (or a branch), a continuation, or a sub-agent's."""
    parent = known.get(_parent(row))
    if parent is None:
        return "conversation"
    marks = table_of(json_of(str(row.get("model_config") or "")))
    if "_branched_from" in marks or "_reset_from" in marks or parent.get("end_reason") == "branched":
        return "conversation"
    if parent.get("end_reason") == "compression":
        return "continuation"
    key = row.get("session_key")
    return "conversation" if key and key == parent.get("session_key") else "helper"


def _chain(row: Row, known: Mapping[str, Row], *, kinds: Mapping[str, Kind]) -> list[Row]:
    """The sessions through which a conversation went, from its first."""
    chain = [row]
    while kinds[str(chain[0]["id"])] == "continuation" and len(chain) < CHAIN_MAX:
        chain.insert(0, known[_parent(chain[0])])
    return chain


class _Database:
    """A database that can come from someone else: only real tables are read, in a limited number of steps."""

    def __init__(self, connection: apsw.Connection, *, steps_left: int) -> None:
        self._connection = connection
        self._steps_left = steps_left
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(self._is_spent, STEPS_PER_LOOK)

    def rows(
        self, table: str, columns: tuple[str, ...], *, where: str, value: str | int
    ) -> Iterator[dict[str, object]]:
        """Rows as far as this version of the table has the columns; raises OSError or apsw.Error."""
        if self._is_spent():
            raise OSError(TOO_LONG)
        # Views and virtual tables have no root page, and can be endless.
        real = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND lower(name) = ? AND rootpage > 0"
        if not self._connection.execute(real, (table,)).fetchall():
            raise OSError(f"it has no table named {table}")
        there = {str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({table})")}
        wanted = [column for column in columns if column in there]
        sql = f"SELECT {', '.join(wanted)} FROM {table} WHERE {where} ORDER BY rowid"  # noqa: S608  # our own names
        try:
            for row in self._connection.execute(sql, (value,)):
                yield dict(zip(wanted, row, strict=True))
        except apsw.InterruptError as error:
            raise OSError(TOO_LONG) from error

    def _is_spent(self) -> bool:
        """Count the steps since the last call; true interrupts the query."""
        self._steps_left -= STEPS_PER_LOOK
        return self._steps_left < 0


class _Reading(Struct):
    """The state of a conversation while its rows are read."""

    has_originals: bool = False  # so that a summary of them says nothing new
    skips_answer: bool = False


def _messages(database: _Database, chain: list[Row]) -> Iterator[ImportedMessage]:
    seen: set[tuple[object, ...]] = set()
    reading = _Reading()
    for row in chain:
        reading.has_originals = row is not chain[0]
        for fields in database.rows(
            "messages", MESSAGE_COLUMNS, where="session_id = ?", value=str(row["id"])
        ):
            identity = tuple(fields.get(column) for column in IDENTITY)
            if identity in seen or not _counts(fields, reading):
                continue
            seen.add(identity)
            message = message_of(fields)
            if message is not None:
                yield message


def _counts(fields: Row, reading: _Reading) -> bool:
    """Whether a row is part of what people said: one that was rewound is not, one that was compacted is."""
    is_compacted = bool(fields.get("compacted", 0))
    reading.has_originals |= is_compacted
    if not (fields.get("active", 1) or is_compacted):
        return False
    if table_of(json_of(str(fields.get("display_metadata") or ""))).get("model_only"):
        return False
    content = str(fields.get("content") or "").lstrip()
    is_asked = fields.get("role") in {"user", "system"} and content.startswith(OWN_QUESTIONS)
    is_answer = reading.skips_answer and fields.get("role") == "assistant"
    reading.skips_answer = is_asked
    sums_up = bool(fields.get("_compressed_summary")) or is_summary(content)
    return not (is_asked or is_answer or (sums_up and reading.has_originals))


@contextmanager
def _opened(path: Path) -> Generator[apsw.Connection]:
    """The database, left unchanged: a write-ahead log is copied first, since SQLite would write to it."""
    log = path_in_home(path.parent, path.with_name(path.name + "-wal"))
    if not log.exists() or not log.stat().st_size:
        yield from _connection(path)
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-import-") as folder:
        copy = Path(folder) / DATABASE
        before = _stamps(path, log)
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(f"{DATABASE}-wal"))
        if _stamps(path, log) != before:
            raise OSError("it changed while it was read; stop hermes-agent and try again")
        connection = apsw.Connection(str(copy))
        try:
            yield connection
        finally:
            connection.close()


def _stamps(*paths: Path) -> list[tuple[int, int]]:
    return [(stat.st_mtime_ns, stat.st_size) for stat in (path.stat() for path in paths)]


def _connection(path: Path) -> Iterator[apsw.Connection]:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?immutable=1", flags=flags)
    try:
        yield connection
    finally:
        connection.close()
