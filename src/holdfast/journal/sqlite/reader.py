"""Reads the SQLite file: a few threads, each with its own read-only connection, beside the writer."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw
from typing_extensions import override

from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import ListedSession, RunQuery, SearchHit, SessionSize, StoredResponse
from holdfast.interfaces.journal import Record, StoreDamaged, StoreFailed, StoreFull, StoreLocked
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.search_terms import fts_query, phrases
from holdfast.journal.sql_store import SqlIndex
from holdfast.journal.sqlite.connection import Connections, sqlite_errors_named
from holdfast.journal.sqlite.histories import read_rows
from holdfast.journal.sqlite.queries import queries
from holdfast.journal.sqlite.threads import Threads
from holdfast.journal.sqlite.transaction import SEARCH_SHIFT, row_of

THREADS = 4
HITS_PER_STEP = 200
SEQ_MAX = (1 << 32) - 1  # a longer log doesn't fit into the search index

Answer = TypeVar("Answer")
Row = TypeVar("Row", SessionRow, RunRow, AskRow)


class SqliteReader(SqlIndex):
    """Everything that can be read from the file without owning it."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self._path = path
        self._threads = Threads(THREADS, "holdfast-reader")
        self._connections = Connections(path, vfs=vfs)

    async def close(self) -> None:
        """End the threads and close the file."""
        await self._threads.close()
        self._connections.close()

    async def is_readable(self) -> bool:
        """Whether our queries can read the file now; raises StoreReadOnly if they never will."""
        try:
            return await self._ask(lambda _, __: True)
        except (StoreLocked, StoreFull, StoreFailed):
            return False

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Up to `limit` records after a seq; raises StoreDamaged if one is not what was written."""
        return await self._ask(lambda db, sql: _records(db, sql, (session_id, after), limit=limit))

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        """`read` for several sessions at once; damage is returned instead of raised."""
        return await self._ask(lambda db, sql: [_looked(db, sql, place, limit=limit) for place in places])

    async def last_seq(self, session_id: str) -> int:
        """The newest seq of the log, 0 if it is empty."""
        found = await self._rows("last_seq", {"session_id": session_id})
        return int(found[0][0]) if found else 0

    @override
    async def session(self, session_id: str) -> SessionRow | None:
        found = await self._rows("session", {"session_id": session_id})
        return row_of(SessionRow, found[0]) if found else None

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        found = await self._rows("listed_session", {"session_id": session_id})
        return self._listed(found[0]) if found else None

    @override
    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        found = await self._rows("once", {"key": key, "now_ms": now_ms})
        return StoredResponse(*found[0]) if found else None

    @override
    async def run(self, run_id: str) -> RunRow | None:
        found = await self._rows("run", {"run_id": run_id})
        return row_of(RunRow, found[0]) if found else None

    @override
    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        return await self._runs("runs_of_session" if query.session_id else "runs", query)

    @override
    async def ask(self, ask_id: str) -> AskRow | None:
        found = await self._rows("ask", {"ask_id": ask_id})
        return row_of(AskRow, found[0]) if found else None

    @override
    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        wanted = phrases(text)
        if not wanted:
            return ()
        bindings = {"words": fts_query(wanted), "archived": archived, "session_id": session_id}
        return await self._ask(lambda db, sql: _search(db, sql, bindings, limit=limit))

    @override
    def _row(self, kind: type[Row], row: Any) -> Row:
        return row_of(kind, row)

    @override
    def _listed(self, row: Any) -> ListedSession:
        return ListedSession(row_of(SessionRow, row[:-3]), *row[-3:])

    @override
    async def _size(self, row: tuple[str, int, int, str]) -> SessionSize:
        session_id, updated_ms, event_bytes, names = row
        blobs = FileBlobs(self._path.with_name("blobs"))
        blob_bytes = await self._threads.run(blobs.bytes_of, json.loads(names))
        return SessionSize(session_id, updated_ms, event_bytes + blob_bytes)

    @override
    def _array(self, values: Sequence[str]) -> str:
        return json.dumps(values)

    @override
    async def _rows(self, name: str, bindings: Mapping[str, Any]) -> list[Any]:
        return await self._ask(lambda db, sql: list(db.execute(sql[name], bindings)))

    async def _ask(self, work: Callable[[apsw.Connection, Mapping[str, str]], Answer]) -> Answer:
        return await self._threads.run(self._work, work)

    def _work(self, work: Callable[[apsw.Connection, Mapping[str, str]], Answer]) -> Answer:
        with sqlite_errors_named(self._path), self._connections.one() as connection:
            return work(connection, queries())


def _search(
    db: apsw.Connection, sql: Mapping[str, str], wanted: Mapping[str, Any], *, limit: int
) -> Sequence[SearchHit]:
    """The newest hit of each session, newest sessions first; or all hits in one session."""
    if wanted["session_id"]:
        found_in = db.execute(sql["search_session"], {**wanted, "limit": limit})
        rowids = [cast("int", row[0]) for row in found_in]
    else:
        rowids = _newest_of_each(db, sql["search_hits"], wanted, limit=limit)
    if not rowids:
        return []
    bindings = {
        "words": wanted["words"],
        "lowest": rowids[-1],
        "highest": rowids[0],
        "rowids": json.dumps(rowids),
    }
    found = cast("Iterable[tuple[int, str, str, str]]", db.execute(sql["search_passages"], bindings))
    return [SearchHit(session_id, title, rowid & SEQ_MAX, text) for rowid, session_id, title, text in found]


def _newest_of_each(db: apsw.Connection, sql: str, wanted: Mapping[str, Any], *, limit: int) -> list[int]:
    """The rowids of each session's newest hit, highest first."""
    newest: dict[int, int] = {}
    below = 1 << 62
    while len(newest) < limit:
        bindings = {**wanted, "below": below, "limit": HITS_PER_STEP}
        rowids = [cast("int", row[0]) for row in db.execute(sql, bindings)]
        for rowid in rowids:
            newest.setdefault(rowid >> SEARCH_SHIFT, rowid)
        if len(rowids) < HITS_PER_STEP:
            break
        # Skip the rest of this session: one hit is enough.
        below = rowids[-1] >> SEARCH_SHIFT << SEARCH_SHIFT
    return list(newest.values())[:limit]


def _records(
    db: apsw.Connection, sql: Mapping[str, str], place: tuple[str, int], *, limit: int
) -> Sequence[Record]:
    session_id, after = place
    bindings = {"session_id": session_id, "after": min(after, SEQ_MAX), "limit": max(limit, 0)}
    found = read_rows(db, sql, "read_events", bindings)
    return [Record.verified(session_id, seq, crc=crc, body=body) for seq, crc, body in found]


def _looked(
    db: apsw.Connection, sql: Mapping[str, str], place: tuple[str, int], *, limit: int
) -> Sequence[Record] | StoreDamaged:
    try:
        return _records(db, sql, place, limit=limit)
    except StoreDamaged as damage:
        return damage
