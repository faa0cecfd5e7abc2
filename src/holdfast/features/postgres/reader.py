"""Reads from the database: logs, the index beside them, and notes."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from holdfast.features.postgres.connection import Pool, Row
from holdfast.features.postgres.words import clean, word_query
from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import Index, ListedSession, RunQuery, SearchHit, SessionQuery, StoredResponse
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.interfaces.usage import UsageQuery, UsageSum
from holdfast.journal.search_terms import Phrase, excerpt, phrases
from holdfast.journal.sqlite.threads import Threads

SEQ_MAX = (1 << 62) - 1
HITS_PER_STEP = 100
LONG_TEXT_CHARS = 64 * 1024  # longer ones are searched outside the event loop
_SESSION_FIELDS = SessionRow.__struct_fields__


class PostgresReader(Index):
    """Everything that can be read without owning anything."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._search_threads = Threads(1, "holdfast-search")

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Up to `limit` records after a seq; raises StoreDamaged if one is not what was written."""
        found = await self._pool.rows(
            "read_events", session_id=clean(session_id), after=min(after, SEQ_MAX), limit=max(limit, 0)
        )
        return [_record(session_id, row) for row in found]

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        """`read` for several sessions at once; damage is returned instead of raised."""
        found = await self._pool.rows(
            "read_each",
            session_ids=[clean(session_id) for session_id, _ in places],
            afters=[min(after, SEQ_MAX) for _, after in places],
            limit=max(limit, 0),
        )
        rows: list[list[Row]] = [[] for _ in places]
        for row in found:
            rows[row["nth"] - 1].append(row)
        return [_looked(place[0], one) for place, one in zip(places, rows, strict=True)]

    async def last_seq(self, session_id: str) -> int:
        """The newest seq of the log, 0 if it is empty."""
        found = await self._pool.rows("last_seqs", session_ids=[clean(session_id)])
        return found[0]["last_seq"] if found else 0

    @override
    async def session(self, session_id: str) -> SessionRow | None:
        listed = await self.listed(session_id)
        return listed.row if listed else None

    @override
    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        before = query.before
        found = await self._pool.rows(
            "sessions",
            archived=query.archived,
            before_id=before and clean(before.session_id),
            before_pinned=before and before.pinned,
            before_ms=before and before.updated_ms,
            sources_hidden=list(query.sources_hidden),
            limit=query.limit,
        )
        return [_listed(row) for row in found]

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        found = await self._pool.rows("heads", session_ids=[clean(session_id)])
        return _listed(found[0]) if found else None

    @override
    async def logs(self, source: str) -> Sequence[SessionRow]:
        return [_session(row) for row in await self._pool.rows("logs", source=source)]

    @override
    async def undelivered_steers(self) -> Sequence[str]:
        return [row["session_id"] for row in await self._pool.rows("undelivered_steers")]

    @override
    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await self._pool.rows("sessions_to_purge", source=source, before_ms=before_ms)
        return [_session(row) for row in found]

    @override
    async def updated_ms(self, *, source: str, nth: int) -> int:
        found = await self._pool.rows("updated_ms", source=source, before=nth - 1)
        return found[0]["updated_ms"] if found else -1

    @override
    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        found = await self._pool.rows("unthinned", before_ms=before_ms, limit=limit)
        return [row["session_id"] for row in found]

    @override
    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        for row in await self._pool.rows("once_by_key", keys=[clean(key)]):
            if row["expires_at_ms"] > now_ms:
                return StoredResponse(row["digest"], row["answer"])
        return None

    @override
    async def run(self, run_id: str) -> RunRow | None:
        found = await self._pool.rows("runs_by_id", run_ids=[clean(run_id)])
        return RunRow(**dict(found[0])) if found else None

    @override
    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        before_ms, before_id = query.before or (None, None)
        found = await self._pool.rows(
            "runs",
            session_id=clean(query.session_id),
            status=query.status,
            outcomes=list(query.outcomes) or None,
            asking=query.asking,
            before_ms=before_ms,
            before_id=before_id,
            limit=query.limit,
        )
        return [RunRow(**dict(row)) for row in found]

    @override
    async def ask(self, ask_id: str) -> AskRow | None:
        found = await self._pool.rows("asks_by_id", ask_ids=[clean(ask_id)])
        return AskRow(**dict(found[0])) if found else None

    @override
    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        found = await self._pool.rows("open_asks", limit=limit, session_id=clean(session_id), source=source)
        return [AskRow(**dict(row)) for row in found]

    @override
    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        found = await self._pool.rows("session_ids", prefix=prefix, end=prefix + "\U0010ffff", limit=limit)
        return [session_id for (session_id,) in found]

    @override
    async def open_ask_count(self) -> int:
        ((count,),) = await self._pool.rows("open_ask_count")
        return count

    @override
    async def usage(self, query: UsageQuery) -> Sequence[UsageSum]:
        days = {"first_day": query.first_day, "last_day": query.last_day, "limit": query.limit}
        if query.by == "session":
            found = await self._pool.rows("usage_of_sessions", **days)
        else:
            found = await self._pool.rows("usage", by=query.by, api_key=query.api_key, **days)
        return [UsageSum(*row) for row in found]

    @override
    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        wanted = phrases(clean(text))
        hits: list[SearchHit] = []
        below = (SEQ_MAX, 0)
        while wanted and len(hits) < limit:
            query = word_query(wanted)
            found = await self._pool.rows(
                "search",
                all_words=query.all_words,
                each_word=query.each_word,
                words=len(query.each_word),
                below_session=below[0],
                below_seq=below[1],
                session_id=clean(session_id),
                archived=None if session_id else archived,
                limit=HITS_PER_STEP,
            )
            hits += await self._hits(found, wanted, hits, every=bool(session_id))
            if len(found) < HITS_PER_STEP:
                break
            below = (found[-1]["session"], found[-1]["seq"])
        return hits[:limit]

    async def _hits(
        self, found: Sequence[Row], wanted: Sequence[Phrase], earlier: Sequence[SearchHit], *, every: bool
    ) -> list[SearchHit]:
        """The candidates that do match: all of them, or the newest of each session."""
        hits: list[SearchHit] = []
        seen = {hit.session_id for hit in earlier}
        for row in found:
            if not every and row["session_id"] in seen:
                continue
            texts = await self._pool.rows("texts", sessions=[row["session"]], seqs=[row["seq"]])
            if not texts:
                continue  # purged meanwhile
            text: str = texts[0]["text"]
            if len(text) > LONG_TEXT_CHARS:
                passage = await self._search_threads.run(excerpt, text, wanted)
            else:
                passage = excerpt(text, wanted)
            if passage is not None:
                seen.add(row["session_id"])
                hits.append(SearchHit(row["session_id"], row["title"], row["seq"], passage))
        return hits

    async def note(self, key: str) -> bytes | None:
        """The value of a note, or None."""
        found = await self._pool.rows("note", key=clean(key))
        return found[0]["value"] if found else None

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        """All notes whose key starts with the prefix."""
        return {row["key"]: row["value"] for row in await self._pool.rows("notes", prefix=clean(prefix))}

    async def close(self) -> None:
        """End the threads and connections."""
        await self._search_threads.close()
        await self._pool.close()


def _record(session_id: str, row: Row) -> Record:
    return Record.verified(session_id, row["seq"], crc=row["crc"], body=row["body"])


def _looked(session_id: str, rows: Sequence[Row]) -> Sequence[Record] | StoreDamaged:
    try:
        return [_record(session_id, row) for row in rows]
    except StoreDamaged as damage:
        return damage


def _session(row: Any) -> SessionRow:
    return SessionRow(**{name: row[name] for name in _SESSION_FIELDS})


def _listed(row: Any) -> ListedSession:
    return ListedSession(_session(row), row["open_runs"], row["open_asks"], row["begun_runs"])
