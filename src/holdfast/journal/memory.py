"""A complete store in memory, for tests and for embedding; its contents are lost when the process ends."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence

from typing_extensions import override

from holdfast.codec import bodies_of
from holdfast.events import Event
from holdfast.folds import rows
from holdfast.folds.usage import UsageRow
from holdfast.interfaces.index import (
    ListedSession,
    RunQuery,
    SearchHit,
    SessionQuery,
    SessionSize,
    StoredResponse,
)
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    FenceLost,
    IdempotencyKey,
    JournalError,
    KeyConflict,
    Record,
    Replayed,
    StoreClosed,
    StoreDamaged,
)
from holdfast.interfaces.nodes import Node
from holdfast.interfaces.usage import UsageQuery, UsageSum
from holdfast.journal.append_rules import (
    LogHead,
    counts_usage,
    earlier_answer,
    index_event,
    keep_order,
    refusal,
)
from holdfast.journal.follow import WINDOW_BYTES_MAX
from holdfast.journal.log_store import LogStore, now_s
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.search_terms import passage, phrases
from holdfast.redaction import Redactor
from holdfast.values import LogEnd


class MemoryStore(LogStore):
    """Journal, index, notes and blobs in memory; creating one makes it the owner of its disk."""

    def __init__(
        self,
        redactor: Redactor,
        disk: MemoryDisk | None = None,
        *,
        window_bytes_max: int = WINDOW_BYTES_MAX,
    ) -> None:
        super().__init__(redactor, window_bytes_max=window_bytes_max)
        self._disk = disk or MemoryDisk()
        self._disk.fence += 1
        self._fence = Fence(self._disk.fence)
        self._closed = False

    @override
    async def close(self) -> None:
        self._closed = True
        self._tails.close()
        self._ownership.close()

    @property
    @override
    def trouble(self) -> JournalError | None:
        return None

    @override
    async def writable(self) -> None: ...

    @override
    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        return self._fence

    @override
    async def release(self, session_id: str, fence: Fence) -> None:
        self._check_open()

    @property
    @override
    def node(self) -> Node:
        return Node(incarnation=self._fence.number)

    @override
    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        del busy
        self._check_open()
        found = [
            row.session_id
            for row in self._disk.sessions.values()
            if not row.purge_at_ms and (row.steers or self._listed(row).open_runs)
        ]
        return found[:limit]

    @override
    async def _submit(
        self,
        session_id: str,
        events: Sequence[Event],
        fence: Fence | None,
        when: Sequence[Condition],
        idempotency_key: IdempotencyKey | None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        self._check_open()
        assert events, "an append holds at least one event"
        if fence is not None:
            self._insist_on(session_id, fence)
        began_s = now_s()
        result = self._append_idempotent(session_id, events, when=when, idempotency_key=idempotency_key)
        if self.hooks.after_commit is not None and isinstance(result, Appended):
            self.hooks.after_commit(events, now_s() - began_s)
        return result

    def _insist_on(self, session_id: str, fence: Fence) -> None:
        """Raise FenceLost if this store no longer owns the session."""
        del session_id  # one store owns them all
        if fence.number != self._disk.fence:
            raise FenceLost(f"fence {fence.number} was lost to {self._disk.fence}")

    def _append_idempotent(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        when: Sequence[Condition],
        idempotency_key: IdempotencyKey | None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        disk = self._disk
        if idempotency_key is not None:
            _, used = disk.idempotency_keys.get(idempotency_key.key, (None, None))
            known = earlier_answer(used, digest=idempotency_key.digest, now_ms=events[0].at_ms)
            if known is not None:
                return known
        row = disk.sessions.get(session_id)
        head = None if row is None else self._head(row) if when else LogHead(0, row)
        declined = refusal(events[0], head, session_id=session_id, when=when, known=disk)
        if declined is not None:
            return declined
        head = head or LogHead(0, rows.SessionRow(session_id=session_id))
        appended = self._append(session_id, events, head)
        if idempotency_key is not None:
            disk.idempotency_keys[idempotency_key.key] = (session_id, idempotency_key)
        return appended

    def _append(self, session_id: str, events: Sequence[Event], head: LogHead) -> Appended:
        disk = self._disk
        first_seq = disk.last_seq(session_id) + 1
        records = [
            Record(session_id, seq, body=body, decoded=event)
            for seq, (event, body) in enumerate(zip(events, bodies_of(events), strict=True), first_seq)
        ]
        earlier = disk.logs.get(session_id)
        keep_order(records, earlier[-1].event.at_ms if earlier else 0)
        counts = counts_usage(events)
        for record in records:
            if type(record.event) not in rows.QUIET:
                changes = index_event(head, record.seq, event=record.event, known=disk, counts=counts)
                disk.index(head.row, changes)
        disk.logs.setdefault(session_id, []).extend(records)
        self._publish(session_id, records)
        return Appended(records[0].seq, records[-1].seq)

    def _publish(self, session_id: str, records: Sequence[Record]) -> None:
        """Show stored records to followers."""
        self._tails.publish(session_id, records)

    @override
    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        self._check_open()
        return self._disk.records(session_id, after=after, limit=max(limit, 0))

    @override
    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        return [await self.read(session_id, after=after, limit=limit) for session_id, after in places]

    @override
    async def last_seq(self, session_id: str) -> int:
        self._check_open()
        return self._disk.last_seq(session_id)

    @override
    async def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        self._check_open()
        gone = self._disk.thin(session_id, before_ms)
        self._tails.forget_one(session_id)
        yield gone

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        self._check_open()
        disk = self._disk
        row = disk.sessions.get(session_id)
        if only is not None and row is not None and only != (row.epoch, disk.last_seq(session_id)):
            return False
        disk.logs.pop(session_id, None)
        disk.sessions.pop(session_id, None)
        disk.texts.pop(session_id, None)
        disk.thinned.pop(session_id, None)
        disk.session_usage = {
            place: row for place, row in disk.session_usage.items() if place[0] != session_id
        }
        disk.runs = {key: run for key, run in disk.runs.items() if run.session_id != session_id}
        disk.asks = {key: ask for key, ask in disk.asks.items() if ask.session_id != session_id}
        disk.idempotency_keys = {
            key: used for key, used in disk.idempotency_keys.items() if used[0] != session_id
        }
        for key in [key for key in disk.notes if key.startswith(f"session/{session_id}/")]:
            del disk.notes[key]
        disk.forget_blobs_of(session_id)
        self._tails.end(session_id)
        if then is not None:
            then()
        return True

    @override
    async def session(self, session_id: str) -> rows.SessionRow | None:
        self._check_open()
        return self._disk.sessions.get(session_id)

    @override
    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        self._check_open()
        before = query.before
        place = (before.pinned, before.updated_ms, before.session_id) if before else None
        listed = sorted(
            (
                row
                for row in self._disk.sessions.values()
                if not row.purge_at_ms
                and row.archived == query.archived
                and row.source not in query.sources_hidden
                and (place is None or _place(row) < place)
            ),
            key=_place,
            reverse=True,
        )
        return [self._listed(row) for row in listed[: query.limit]]

    def _head(self, row: rows.SessionRow) -> LogHead:
        runs = [run for run in self._disk.runs.values() if run.session_id == row.session_id]
        asks = [ask for ask in self._disk.asks.values() if ask.session_id == row.session_id]
        begun = sum(run.status in {"running", "stopping"} for run in runs)
        open_runs = begun + sum(run.status == "queued" for run in runs)
        return LogHead(0, row, 0, open_runs, sum(ask.waits_for == "person" for ask in asks), begun)

    def _listed(self, row: rows.SessionRow) -> ListedSession:
        return self._head(row).listed()

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        self._check_open()
        row = self._disk.sessions.get(session_id)
        return self._listed(row) if row else None

    @override
    async def logs(self, source: str) -> Sequence[rows.SessionRow]:
        self._check_open()
        found = [row for row in self._disk.sessions.values() if row.source == source and not row.purge_at_ms]
        return sorted(found, key=lambda row: (row.created_ms, row.session_id))

    @override
    async def undelivered_steers(self) -> Sequence[str]:
        self._check_open()
        return [row.session_id for row in self._disk.sessions.values() if row.steers and not row.purge_at_ms]

    @override
    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[rows.SessionRow]:
        self._check_open()
        return [
            row
            for row in self._disk.sessions.values()
            if row.purge_at_ms or (row.source == source and not row.pinned and row.updated_ms < before_ms)
        ]

    @override
    async def updated_ms(self, *, source: str, nth: int) -> int:
        self._check_open()
        found = sorted(
            (
                row.updated_ms
                for row in self._disk.sessions.values()
                if row.source == source and not row.pinned and not row.purge_at_ms
            ),
            reverse=True,
        )
        return found[nth - 1] if len(found) >= nth else -1

    @override
    async def session_sizes(
        self, source: str, *, before: SessionSize | None = None, limit: int = 100
    ) -> Sequence[SessionSize]:
        self._check_open()
        disk = self._disk
        found = sorted(
            (row.updated_ms, session_id)
            for session_id, row in disk.sessions.items()
            if row.source == source and not row.pinned and not row.purge_at_ms
        )
        if before is not None:
            found = [one for one in found if one < (before.updated_ms, before.session_id)]
        newest = reversed(found[-limit:])
        return [SessionSize(one, at_ms, disk.bytes_of(one)) for at_ms, one in newest]

    @override
    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        self._check_open()
        return self._disk.unthinned(before_ms)[:limit]

    @override
    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        self._check_open()
        _, idempotency_key = self._disk.idempotency_keys.get(key, (None, None))
        if idempotency_key is None or idempotency_key.expires_at_ms <= now_ms:
            return None
        return StoredResponse(idempotency_key.digest, idempotency_key.answer)

    @override
    async def run(self, run_id: str) -> rows.RunRow | None:
        self._check_open()
        return self._disk.runs.get(run_id)

    @override
    async def runs(self, query: RunQuery) -> Sequence[rows.RunRow]:
        self._check_open()
        asks = self._disk.asks.values()
        asking = {ask.run_id: ask.waits_for for ask in asks if ask.waits_for == "client"}
        asking |= {ask.run_id: ask.waits_for for ask in asks if ask.waits_for == "person"}
        found = [
            run
            for run in self._disk.runs.values()
            if query.session_id in {"", run.session_id}
            and query.status in {None, run.status}
            and (not query.outcomes or run.outcome in query.outcomes)
            and query.asking in {None, asking.get(run.run_id, "nobody")}
            and (query.before is None or (run.created_ms, run.run_id) < query.before)
        ]
        found.sort(key=lambda run: (run.created_ms, run.run_id), reverse=True)
        return found[: query.limit]

    @override
    async def ask(self, ask_id: str) -> rows.AskRow | None:
        self._check_open()
        return self._disk.asks.get(ask_id)

    @override
    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[rows.AskRow]:
        found = [
            ask
            for ask in self._open_asks()
            if session_id in {"", ask.session_id}
            and source in {"", self._disk.sessions[ask.session_id].source}
        ]
        return sorted(found, key=lambda ask: (ask.asked_ms, ask.session_id, ask.seq))[:limit]

    @override
    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        self._check_open()
        kept = (row.session_id for row in self._disk.sessions.values() if not row.purge_at_ms)
        return sorted(session_id for session_id in kept if session_id.startswith(prefix))[:limit]

    @override
    async def open_ask_count(self) -> int:
        return len(self._open_asks())

    def _open_asks(self) -> list[rows.AskRow]:
        self._check_open()
        return [ask for ask in self._disk.asks.values() if ask.waits_for == "person"]

    @override
    async def usage(self, query: UsageQuery) -> Sequence[UsageSum]:
        self._check_open()
        sums: dict[str, UsageRow] = {}
        for name, row in self._named_usage(query):
            if query.first_day <= row.day <= query.last_day and query.api_key in {None, row.api_key}:
                sums[name] = sums[name].plus(row) if name in sums else row
        found = [self._usage_sum(name, row, query.by) for name, row in sums.items()]
        if query.by == "day":
            found.sort(key=lambda one: int(one.name))
        else:
            found.sort(key=_most_used_first)
        return found[: query.limit]

    def _named_usage(self, query: UsageQuery) -> Iterator[tuple[str, UsageRow]]:
        disk = self._disk
        if query.by == "session":
            for (session_id, _), row in disk.session_usage.items():
                if not disk.sessions[session_id].purge_at_ms:
                    yield session_id, row
            return
        for row in disk.usage.values():
            names = {"day": str(row.day), "target": row.target, "key": row.api_key, "all": ""}
            yield names[query.by], row

    def _usage_sum(self, name: str, row: UsageRow, by: str) -> UsageSum:
        return UsageSum(
            name,
            self._disk.sessions[name].title if by == "session" else "",
            row.target_runs if by == "target" else row.runs,
            row.relayed_calls,
            row.input_tokens,
            row.cached_tokens,
            row.output_tokens,
            row.cost_usd,
            row.unpriced_calls,
        )

    @override
    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        self._check_open()
        wanted = phrases(text)
        if not wanted:
            return ()
        hits: list[SearchHit] = []
        for id_, texts in reversed(self._disk.texts.items()):
            row = self._disk.sessions[id_]
            is_meant = session_id == id_ or (not session_id and archived in {None, row.archived})
            if row.purge_at_ms or not is_meant:
                continue
            for seq, found in sorted(texts.items(), reverse=True):
                if (seq or not session_id) and (marked := passage(found, wanted)) is not None:
                    hits.append(SearchHit(id_, row.title, seq, marked))
                    if not session_id:
                        break
        return hits[:limit]

    @override
    async def note(self, key: str) -> bytes | None:
        self._check_open()
        return self._disk.notes.get(key)

    @override
    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        self._check_open()
        return {key: value for key, value in sorted(self._disk.notes.items()) if key.startswith(prefix)}

    @override
    async def put_note(self, key: str, value: bytes) -> None:
        self._check_open()
        self._disk.notes[key] = value

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        self._check_open()
        if self._disk.notes.get(key) != expected:
            return False
        self._disk.notes[key] = value
        return True

    @override
    async def drop_note(self, key: str) -> None:
        self._check_open()
        self._disk.notes.pop(key, None)

    @override
    async def put_blob(self, data: bytes) -> str:
        self._check_open()
        return self._disk.put_blob(self.redactor.redact_bytes(data), self._disk.blobs_to_be_named)

    @override
    async def offer_blob(self, data: bytes) -> str:
        self._check_open()
        return self._disk.put_blob(self.redactor.redact_bytes(data), self._disk.blobs_offered)

    @override
    async def keep_blob(self, name: str) -> bool:
        self._check_open()
        return self._disk.keep_blob(name)

    @override
    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        self._check_open()
        return self._disk.sweep_blobs(time.time() - unnamed_for_s)

    @override
    async def blob(self, name: str) -> bytes | None:
        self._check_open()
        return self._disk.blobs.get(name)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")


def _most_used_first(one: UsageSum) -> tuple[float, int, str]:
    cost = -1.0 if one.cost_usd is None else one.cost_usd
    return (-cost, -(one.input_tokens + one.output_tokens), one.name)


def _place(row: rows.SessionRow) -> tuple[bool, int, str]:
    return (row.pinned, row.updated_ms, row.session_id)
