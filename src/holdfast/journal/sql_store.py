"""The common part of the SQL stores: look-ups by queries of the same names, notes, and thinning."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar

from typing_extensions import override

from holdfast.codec import UnreadableEvent
from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import Index, ListedSession, RunQuery, SessionQuery, SessionSize
from holdfast.interfaces.journal import StoreDamaged
from holdfast.interfaces.usage import UsageQuery, UsageSum
from holdfast.journal.log_store import LogStore
from holdfast.journal.thinning import Joining, ThinningPlan

_Row = TypeVar("_Row", SessionRow, RunRow, AskRow)


class SqlIndex(Index):
    """Look-ups whose SQL is in `queries.sql`; a database adds those that it does in another way."""

    @abstractmethod
    async def _rows(self, name: str, bindings: Mapping[str, Any]) -> Sequence[Any]:
        """Return the rows of a named query. It may use only some of the bindings."""

    @abstractmethod
    def _row(self, kind: type[_Row], row: Any) -> _Row:
        """Convert a row."""

    @abstractmethod
    def _listed(self, row: Any) -> ListedSession:
        """Convert a row of a session and its counts."""

    @abstractmethod
    def _array(self, values: Sequence[str]) -> Any:
        """Convert several values to one parameter."""

    @override
    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        before = query.before
        bindings = {
            "archived": query.archived,
            "before_id": before and before.session_id,
            "before_pinned": before and before.pinned,
            "before_ms": before and before.updated_ms,
            "sources_hidden": self._array(query.sources_hidden),
            "limit": query.limit,
        }
        return [self._listed(row) for row in await self._rows("sessions", bindings)]

    @override
    async def logs(self, source: str) -> Sequence[SessionRow]:
        return [self._row(SessionRow, row) for row in await self._rows("logs", {"source": source})]

    @override
    async def undelivered_steers(self) -> Sequence[str]:
        return [row[0] for row in await self._rows("undelivered_steers", {})]

    @override
    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await self._rows("sessions_to_purge", {"source": source, "before_ms": before_ms})
        return [self._row(SessionRow, row) for row in found]

    @override
    async def updated_ms(self, *, source: str, nth: int) -> int:
        found = await self._rows("updated_ms", {"source": source, "before": nth - 1})
        return found[0][0] if found else -1

    @override
    async def session_sizes(
        self, source: str, *, before: SessionSize | None = None, limit: int = 100
    ) -> Sequence[SessionSize]:
        bindings = {
            "source": source,
            "before_id": before and before.session_id,
            "before_ms": before and before.updated_ms,
            "limit": limit,
        }
        return [await self._size(row) for row in await self._rows("session_sizes", bindings)]

    async def _size(self, row: Any) -> SessionSize:
        """Convert a row of `session_sizes`."""
        return SessionSize(*row)

    @override
    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        return [row[0] for row in await self._rows("unthinned", {"before_ms": before_ms, "limit": limit})]

    @override
    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        return await self._runs("runs", query)

    async def _runs(self, name: str, query: RunQuery) -> Sequence[RunRow]:
        before_ms, before_id = query.before or (None, None)
        bindings = {
            "session_id": query.session_id,
            "status": query.status,
            "outcomes": self._array(query.outcomes) if query.outcomes else None,
            "asking": query.asking,
            "before_ms": before_ms,
            "before_id": before_id,
            "limit": query.limit,
        }
        return [self._row(RunRow, row) for row in await self._rows(name, bindings)]

    @override
    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        bindings = {"limit": limit, "session_id": session_id, "source": source}
        return [self._row(AskRow, row) for row in await self._rows("open_asks", bindings)]

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

    async def note(self, key: str) -> bytes | None:
        """See Notes."""
        found = await self._rows("note", {"key": key})
        return found[0][0] if found else None

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        """See Notes."""
        return dict(await self._rows("notes", {"prefix": prefix}))


class SqlStore(SqlIndex, LogStore):
    """Notes and thinning, by statements that each database executes in its own way."""

    @abstractmethod
    async def _execute(self, name: str, bindings: Mapping[str, Any]) -> int:
        """Write with a named statement; return how many rows it changed."""

    @abstractmethod
    async def _plan_on(self, plan: ThinningPlan, session_id: str, *, key: int, after: int) -> int:
        """Read some more of the log; return the last seq read, 0 if there is no more."""

    @abstractmethod
    async def _join(self, joining: Joining) -> int:
        """Write one step of thinning; return how many records it removed."""

    @override
    async def put_note(self, key: str, value: bytes) -> None:
        await self._execute("put_note", {"key": key, "value": value})

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        if expected is None:
            return bool(await self._execute("add_note", {"key": key, "value": value}))
        return bool(await self._execute("swap_note", {"key": key, "value": value, "expected": expected}))

    @override
    async def drop_note(self, key: str) -> None:
        await self._execute("drop_note", {"key": key})

    @override
    async def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        found = await self._rows("thinned", {"session_id": session_id})
        if not found:
            return
        key, at, end = found[0]  # what is appended from now on is not old
        plan = ThinningPlan(before_ms)
        try:
            while at < end and not plan.is_over:
                at = await self._plan_on(plan, session_id, key=key, after=at) or end
                while plan.is_step_full:
                    yield await self._join(Joining(session_id, key, plan.next_due()))
                if at < end and not plan.is_over:
                    yield 0
            yield await self._join(Joining(session_id, key, plan.next_due(), plan.upto_seq, before_ms))
        except (StoreDamaged, UnreadableEvent):
            await self._join(Joining(session_id, key, upto_ms=before_ms))
            raise
