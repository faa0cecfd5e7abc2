"""The conversations of hermes-agent (state.db) and of its web UI (one JSON file each), left as they are."""

import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import quote

import apsw
import msgspec

from holdfast.cli.import_hermes_messages import HermesMessage, HermesSession, message_of, ms_of

DATABASE = "state.db"
PAGE_FOLDERS = ("webui/sessions", "webui-mvp/sessions")
FILE_BYTES_MAX = 256 * 1024 * 1024
UNTITLED = frozenset({"untitled", "new chat", ""})
SESSION_COLUMNS = ("id", "title", "model", "cwd", "started_at", "archived")
MESSAGE_COLUMNS = (
    *("role", "content", "tool_call_id", "tool_calls", "timestamp", "reasoning", "reasoning_content"),
    *("active", "compacted"),
)


class HermesSessions:
    """All conversations under a home of hermes-agent, one at a time, since a store may be larger than memory.

    `problems` says what could not be read so far.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.problems: list[str] = []

    def read(self) -> Iterator[HermesSession]:
        """Each conversation once: where both stores have it, the one with more in it."""
        of_page = {session.session_id: len(session.messages) for session in self._of_page()}
        taken: set[str] = set()
        for session in self._of_database():
            if len(session.messages) > of_page.get(session.session_id, -1):
                taken.add(session.session_id)
                yield session
        for session in self._of_page():
            if session.session_id not in taken:
                taken.add(session.session_id)
                yield session

    def _problem(self, path: Path, error: Exception) -> None:
        text = f"{path}: cannot be read: {error}"
        if text not in self.problems:
            self.problems.append(text)

    def _of_database(self) -> Iterator[HermesSession]:
        path = self._home / DATABASE
        if not path.is_file():
            return
        try:
            with _opened(path) as connection:
                yield from _sessions(connection, str(path))
        except (apsw.Error, OSError) as error:
            self._problem(path, error)

    def _of_page(self) -> Iterator[HermesSession]:
        for folder in PAGE_FOLDERS:
            for path in sorted((self._home / folder).glob("*.json")):
                if not path.name.startswith("_"):
                    try:
                        yield from _of_file(path)
                    except (OSError, ValueError) as error:
                        self._problem(path, error)


@contextmanager
def _opened(path: Path) -> Generator[apsw.Connection]:
    """The database, without a trace: a write-ahead log is read from a copy, since SQLite would touch it."""
    log = path.with_name(path.name + "-wal")
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


def _rows(
    connection: apsw.Connection, table: str, columns: tuple[str, ...], *, where: str, value: str | int
) -> Iterator[dict[str, object]]:
    """Rows as far as this version of the table has the columns."""
    there = {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
    wanted = [column for column in columns if column in there]
    sql = f"SELECT {', '.join(wanted)} FROM {table} WHERE {where} ORDER BY rowid"  # noqa: S608  # our own names
    for row in connection.execute(sql, (value,)):
        yield dict(zip(wanted, row, strict=True))


def _sessions(connection: apsw.Connection, origin: str) -> Iterator[HermesSession]:
    for row in list(_rows(connection, "sessions", SESSION_COLUMNS, where="?", value=1)):
        session_id = str(row["id"])
        rows = _rows(connection, "messages", MESSAGE_COLUMNS, where="session_id = ?", value=session_id)
        messages = [message_of(fields) for fields in rows if _counts(fields)]
        yield HermesSession(
            session_id=session_id,
            messages=tuple(message for message in messages if message is not None),
            title=_title(row.get("title")),
            model=str(row.get("model") or ""),
            workspace=str(row.get("cwd") or ""),
            archived=bool(row.get("archived")),
            created_ms=ms_of(row.get("started_at")),
            origin=origin,
        )


def _counts(fields: Mapping[str, object]) -> bool:
    """Whether a row is part of the conversation: one that was rewound is not, one that was compacted is."""
    return bool(fields.get("active", 1)) or bool(fields.get("compacted", 0))


def _title(value: object) -> str:
    title = value.strip() if isinstance(value, str) else ""
    return "" if title.lower() in UNTITLED else title


def _of_file(path: Path) -> Iterator[HermesSession]:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError("it is too large")
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("it holds no session")  # noqa: TRY004  # a file, not an argument
    fields = cast("dict[str, object]", found)
    if fields.get("pre_compression_snapshot"):
        return
    given = fields.get("messages")
    listed = cast("list[object]", given) if isinstance(given, list) else []
    messages: list[HermesMessage] = []
    for one in listed:
        message = message_of(cast("Mapping[str, object]", one)) if isinstance(one, dict) else None
        messages += [message] if message is not None else []
    yield HermesSession(
        session_id=str(fields.get("session_id") or path.stem),
        messages=tuple(messages),
        title=_title(fields.get("title")),
        model=str(fields.get("model") or ""),
        workspace=str(fields.get("workspace") or ""),
        pinned=fields.get("pinned") is True,
        archived=fields.get("archived") is True,
        created_ms=ms_of(fields.get("created_at")),
        origin=str(path),
    )
