"""Reads the SQLite file: a few threads, each with its own read-only connection, beside the writer."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw
from typing_extensions import override

from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import Index, ListedSession, RunQuery, SearchHit, SessionQuery, StoredResponse
from holdfast.interfaces.journal import Record, StoreDamaged, StoreFailed, StoreFull, StoreLocked
from holdfast.interfaces.usage import UsageQuery, UsageSum
from holdfast.journal.search_terms import fts_query, phrases
from holdfast.journal.sqlite.connection import sqlite_errors_named
from holdfast.journal.sqlite.connections import Connections
from holdfast.journal.sqlite.histories import read_rows
from holdfast.journal.sqlite.queries import queries
from holdfast.journal.sqlite.threads import Threads
from holdfast.journal.sqlite.transaction import SEARCH_SHIFT, row_of

THREADS = 4
HITS_PER_STEP = 200
SEQ_MAX = (1 << 32) - 1  # a longer log doesn't fit into the search index

Answer = TypeVar("Answer")


class SqliteReader(Index):
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
    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        before = query.before
        found = await self._rows(
            "sessions",
            {
                "archived": query.archived,
                "before_id": before and before.session_id,
                "before_pinned": before and before.pinned,
                "before_ms": before and before.updated_ms,
                "sources_hidden": json.dumps(query.sources_hidden),
                "limit": query.limit,
            },
        )
        return [ListedSession(row_of(SessionRow, row[:-3]), *row[-3:]) for row in found]

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        found = await self._rows("listed_session", {"session_id": session_id})
        return ListedSession(row_of(SessionRow, found[0][:-3]), *found[0][-3:]) if found else None

    @override
    async def logs(self, source: str) -> Sequence[SessionRow]:
        return [row_of(SessionRow, row) for row in await self._rows("logs", {"source": source})]

    @override
    async def undelivered_steers(self) -> Sequence[str]:
        return [row[0] for row in await self._rows("undelivered_steers", {})]

    @override
    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await self._rows("sessions_to_purge", {"source": source, "before_ms": before_ms})
        return [row_of(SessionRow, row) for row in found]

    @override
    async def updated_ms(self, *, source: str, nth: int) -> int:
        found = await self._rows("updated_ms", {"source": source, "before": nth - 1})
        return found[0][0] if found else -1

    @override
    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        return [row[0] for row in await self._rows("unthinned", {"before_ms": before_ms, "limit": limit})]

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
        before_ms, before_id = query.before or (None, None)
        bindings = {
            "status": query.status,
            "outcomes": json.dumps(query.outcomes) if query.outcomes else None,
            "asking": query.asking,
            "before_ms": before_ms,
            "before_id": before_id,
            "limit": query.limit,
        }
        if query.session_id:
            found = await self._rows("runs_of_session", bindings | {"session_id": query.session_id})
        else:
            found = await self._rows("runs", bindings)
        return [row_of(RunRow, row) for row in found]

    @override
    async def ask(self, ask_id: str) -> AskRow | None:
        found = await self._rows("ask", {"ask_id": ask_id})
        return row_of(AskRow, found[0]) if found else None

    @override
    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        bindings = {"limit": limit, "session_id": session_id, "source": source}
        return [row_of(AskRow, row) for row in await self._rows("open_asks", bindings)]

    @override
    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        bindings = {"prefix": prefix, "end": prefix + "\U0010ffff", "limit": limit}
        return [session_id for (session_id,) in await self._rows("session_ids", bindings)]

    @override
    async def open_ask_count(self) -> int:
        ((count,),) = await self._rows("open_ask_count", {})
        return count

    @override
    async def usage(self, query: UsageQuery) -> Sequence[UsageSum]:
        name = "usage_of_sessions" if query.by == "session" else "usage"
        bindings = {
            "by": query.by,
            "first_day": query.first_day,
            "last_day": query.last_day,
            "api_key": query.api_key,
            "limit": query.limit,
        }
        return [UsageSum(*row) for row in await self._rows(name, bindings)]

    @override
    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        wanted = phrases(text)
        if not wanted:
            return ()
        bindings = {"words": fts_query(wanted), "archived": archived, "session_id": session_id}
        return await self._ask(lambda db, sql: _search(db, sql, bindings, limit=limit))

    async def note(self, key: str) -> bytes | None:
        """The value of a note, or None."""
        found = await self._rows("note", {"key": key})
        return found[0][0] if found else None

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        """All notes whose key starts with the prefix."""
        return dict(await self._rows("notes", {"prefix": prefix}))

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
