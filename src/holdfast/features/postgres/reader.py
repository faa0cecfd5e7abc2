"""Reads from the database: logs, the index beside them, and notes."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from typing_extensions import override

from holdfast.features.postgres.connection import Pool, Row
from holdfast.features.postgres.words import clean, word_query
from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import ListedSession, SearchHit, StoredResponse
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.journal.search_terms import Phrase, excerpt, phrases
from holdfast.journal.sql_store import SqlIndex
from holdfast.journal.sqlite.threads import Threads

SEQ_MAX = (1 << 62) - 1
HITS_PER_STEP = 100
LONG_TEXT_CHARS = 64 * 1024  # longer ones are searched outside the event loop
_AnyRow = TypeVar("_AnyRow", SessionRow, RunRow, AskRow)


class PostgresReader(SqlIndex):
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
    async def listed(self, session_id: str) -> ListedSession | None:
        found = await self._pool.rows("heads", session_ids=[clean(session_id)])
        return self._listed(found[0]) if found else None

    @override
    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        for row in await self._pool.rows("once_by_key", keys=[clean(key)]):
            if row["expires_at_ms"] > now_ms:
                return StoredResponse(row["digest"], row["answer"])
        return None

    @override
    async def run(self, run_id: str) -> RunRow | None:
        found = await self._pool.rows("runs_by_id", run_ids=[clean(run_id)])
        return self._row(RunRow, found[0]) if found else None

    @override
    async def ask(self, ask_id: str) -> AskRow | None:
        found = await self._pool.rows("asks_by_id", ask_ids=[clean(ask_id)])
        return self._row(AskRow, found[0]) if found else None

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

    @override
    async def _rows(self, name: str, bindings: Mapping[str, Any]) -> Sequence[Any]:
        cleaned = {key: clean(one) if isinstance(one, str) else one for key, one in bindings.items()}
        return await self._pool.rows(name, **cleaned)

    @override
    def _row(self, kind: type[_AnyRow], row: Any) -> _AnyRow:
        return kind(**{name: row[name] for name in kind.__struct_fields__})

    @override
    def _listed(self, row: Any) -> ListedSession:
        counts = row["open_runs"], row["open_asks"], row["begun_runs"]
        return ListedSession(self._row(SessionRow, row), *counts)

    @override
    def _array(self, values: Sequence[str]) -> list[str]:
        return list(values)

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
