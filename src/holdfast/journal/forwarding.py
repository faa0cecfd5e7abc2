"""A store that forwards every call to another store: the base class of the layers that wrap a store."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

from typing_extensions import override

from holdfast.events import Event, Input
from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import ListedSession, RunQuery, SearchHit, SessionQuery, StoredResponse
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    Following,
    IdempotencyKey,
    JournalError,
    KeyConflict,
    LogKind,
    LogWatch,
    Pace,
    Record,
    Replayed,
    Store,
    StoreDamaged,
)
from holdfast.interfaces.nodes import Node, OwnershipChange, SessionPlace
from holdfast.interfaces.usage import UsageQuery, UsageSum
from holdfast.values import LogEnd


class ForwardingStore(Store):
    """Forwards everything; a layer overrides only the methods that it changes."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @override
    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        return await self._inner.claim(session_id, to_settle=to_settle)

    @override
    async def release(self, session_id: str, fence: Fence) -> None:
        await self._inner.release(session_id, fence)

    @property
    @override
    def node(self) -> Node:
        return self._inner.node

    @property
    @override
    def clock_offset_ms(self) -> int:
        return self._inner.clock_offset_ms

    @override
    async def nodes(self) -> Sequence[Node]:
        return await self._inner.nodes()

    @override
    async def place(self, session_id: str) -> SessionPlace:
        return await self._inner.place(session_id)

    @override
    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        return await self._inner.claimable(limit=limit, busy=busy)

    @override
    def ownership(self) -> AsyncIterator[Sequence[OwnershipChange]]:
        return self._inner.ownership()

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        return await self._inner.append(session_id, inputs, when=when, idempotency_key=idempotency_key)

    @override
    def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[Appended | Declined | Replayed]:
        return self._inner.append_run(
            session_id, events, fence=fence, when=when, idempotency_key=idempotency_key
        )

    @override
    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        return await self._inner.read(session_id, after=after, limit=limit)

    @override
    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        return await self._inner.read_each(places, limit=limit)

    @override
    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> Following:
        return self._inner.follow(session_id, after=after, pace=pace)

    @override
    def watch(self, session_id: str) -> LogWatch:
        return self._inner.watch(session_id)

    @override
    def changes(self, *, of: LogKind = "all") -> AsyncIterator[Sequence[str]]:
        return self._inner.changes(of=of)

    @override
    async def last_seq(self, session_id: str) -> int:
        return await self._inner.last_seq(session_id)

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        return await self._inner.purge(session_id, only=only, then=then)

    @override
    def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        return self._inner.thin(session_id, before_ms=before_ms)

    @override
    async def session(self, session_id: str) -> SessionRow | None:
        return await self._inner.session(session_id)

    @override
    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        return await self._inner.sessions(query)

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        return await self._inner.listed(session_id)

    @override
    async def logs(self, source: str) -> Sequence[SessionRow]:
        return await self._inner.logs(source)

    @override
    async def undelivered_steers(self) -> Sequence[str]:
        return await self._inner.undelivered_steers()

    @override
    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        return await self._inner.sessions_to_purge(source=source, before_ms=before_ms)

    @override
    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        return await self._inner.unthinned(before_ms=before_ms, limit=limit)

    @override
    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        return await self._inner.stored_response(key, now_ms=now_ms)

    @override
    async def run(self, run_id: str) -> RunRow | None:
        return await self._inner.run(run_id)

    @override
    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        return await self._inner.runs(query)

    @override
    async def ask(self, ask_id: str) -> AskRow | None:
        return await self._inner.ask(ask_id)

    @override
    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        return await self._inner.open_asks(limit=limit, session_id=session_id, source=source)

    @override
    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        return await self._inner.session_ids(prefix, limit=limit)

    @override
    async def open_ask_count(self) -> int:
        return await self._inner.open_ask_count()

    @override
    async def usage(self, query: UsageQuery) -> Sequence[UsageSum]:
        return await self._inner.usage(query)

    @override
    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        return await self._inner.search(text, limit=limit, archived=archived, session_id=session_id)

    @override
    async def note(self, key: str) -> bytes | None:
        return await self._inner.note(key)

    @override
    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        return await self._inner.notes(prefix)

    @override
    async def put_note(self, key: str, value: bytes) -> None:
        await self._inner.put_note(key, value)

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        return await self._inner.swap_note(key, value, expected=expected)

    @override
    async def drop_note(self, key: str) -> None:
        await self._inner.drop_note(key)

    @override
    async def put_blob(self, data: bytes) -> str:
        return await self._inner.put_blob(data)

    @override
    async def keep_blob(self, name: str) -> bool:
        return await self._inner.keep_blob(name)

    @override
    async def blob(self, name: str) -> bytes | None:
        return await self._inner.blob(name)

    @property
    @override
    def trouble(self) -> JournalError | None:
        return self._inner.trouble

    @property
    @override
    def blob_trouble(self) -> JournalError | None:
        return self._inner.blob_trouble

    @property
    @override
    def failing(self) -> Mapping[str, str]:
        return self._inner.failing

    @override
    async def writable(self) -> None:
        await self._inner.writable()

    @override
    async def offer_blob(self, data: bytes) -> str:
        return await self._inner.offer_blob(data)

    @override
    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        return await self._inner.sweep_blobs(unnamed_for_s=unnamed_for_s)

    @override
    async def close(self) -> None:
        await self._inner.close()
