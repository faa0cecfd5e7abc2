"""The data of one append statement: events, and the rows, search text and keys that go with them.

Many appends share one statement. An append that is declined or refused adds nothing to it, so it doesn't
affect the others.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import asdict

from holdfast.features.postgres.heads import Heads, KnownHead, Lookups
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.queries import Query, append_statement, delta_statement
from holdfast.features.postgres.words import clean, vectors
from holdfast.folds import rows
from holdfast.folds.usage import UsageRow
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    Fence,
    FenceLost,
    IdempotencyKey,
    KeyConflict,
    Record,
    Replayed,
    UnknownSession,
)
from holdfast.journal.append_rules import (
    RowChanges,
    counts_usage,
    earlier_answer,
    index_event,
    keep_order,
    refusal,
)

_PARTS = ("created", "changed", "usage", "session_usage", "runs", "asks")
_ARRAY_PARTS = {"once": "once_key", "texts": "text_seq", "blobs": "blob_names"}  # each with one of its arrays
_ROW_COUNTS = ("runs", "relayed_calls", "input_tokens", "cached_tokens", "output_tokens", "unpriced_calls")
Refused = Declined | Replayed | KeyConflict


class NotFresh(Exception):
    """Something speaks against the append, but what is known of its log may be out of date."""


class _PlannedRows(NamedTuple):
    """The rows as one append finds them: those of the appends before it, else those that were looked up."""

    runs: Mapping[str, rows.RunRow]
    asks: Mapping[str, rows.AskRow]
    head: KnownHead | None
    lookups: Lookups

    def known_run(self, run_id: str) -> rows.RunRow | None:
        run_id = clean(run_id)
        known = self.runs.get(run_id) or (self.head.runs.get(run_id) if self.head is not None else None)
        return known or self.lookups.runs.get(run_id)

    def known_ask(self, ask_id: str) -> rows.AskRow | None:
        ask_id = clean(ask_id)
        return self.asks.get(ask_id) or self.lookups.asks.get(ask_id)


class AppendPlan:
    """Gathers the appends of one statement; `heads` is brought up to date as if it had succeeded."""

    def __init__(self, heads: Heads, lookups: Lookups, *, incarnation: int, new_keys: list[int]) -> None:
        self._heads = heads
        self._lookups = lookups
        self._incarnation = incarnation
        self._new_keys = new_keys
        self.jobs: list[tuple[PendingAppend, Appended]] = []
        self.bytes = self.count = 0  # of the events
        self.was_sent = False  # a lost connection may have written it
        self.used_up_keys: list[str] = []  # idempotency keys that have expired and are used again
        self.loud: set[int] = set()  # keys of sessions in which more than deltas were appended
        self.touched: dict[str, KnownHead] = {}
        self._fences: dict[int, int] = {}
        self._created: dict[str, KnownHead] = {}
        self._changed: dict[str, KnownHead] = {}
        self._events: list[tuple[int, Record]] = []
        self._runs: dict[str, rows.RunRow] = {}
        self._asks: dict[str, rows.AskRow] = {}
        self._once: dict[str, tuple[int, IdempotencyKey]] = {}
        self._texts: dict[tuple[int, int], tuple[str, list[str]]] = {}
        self._blobs: Counter[str] = Counter()
        self._refs: dict[tuple[str, int], None] = {}
        self._usage: dict[tuple[int, str, str], UsageRow] = {}
        self._session_usage: dict[tuple[int, int], UsageRow] = {}

    def tops(self) -> dict[int, int]:
        """The last seq of each log after it, by key."""
        return {head.key: head.last_seq for head in self.touched.values()}

    def firsts(self) -> dict[str, list[int]]:
        """The first event of each append, by which it is recognised in the database."""
        found: dict[str, list[int]] = {"session": [], "seq": [], "crc": []}
        for job, appended in self.jobs:
            found["session"].append(self.touched[job.session_id].key)
            found["seq"].append(appended.first_seq)
            found["crc"].append(crc32(job.records[0].body))
        return found

    def add(self, job: PendingAppend) -> Appended | Refused:
        """Add the append, or say why not; raises JournalError, or NotFresh to be tried on its own."""
        known = self.touched.get(job.session_id)
        if job.is_quiet:
            head = known or self._heads.get(job.session_id)
            if head is not None and self._is_ours(head, job.fence):
                return self._append(job, head)
        is_fresh = job.session_id in self._lookups.fresh
        head = known or (self._lookups.fresh[job.session_id] if is_fresh else self._heads.get(job.session_id))
        try:
            refused = self._refused(job, head)
        except (FenceLost, UnknownSession) as error:
            if is_fresh:
                raise
            raise NotFresh from error
        if refused is None:
            return self._append(job, head or self._create(job))
        if not is_fresh:
            raise NotFresh
        return refused

    def _refused(self, job: PendingAppend, head: KnownHead | None) -> Refused | None:
        if job.fence is not None:
            self._check_fence(job.fence, job, head)
        if job.idempotency_key is not None and (known := self._used(job.idempotency_key, job)) is not None:
            return known
        return refusal(
            job.records[0].event,
            head,
            session_id=job.session_id,
            when=job.when,
            known=_PlannedRows(self._runs, self._asks, head, self._lookups),
        )

    def _is_ours(self, head: KnownHead, fence: Fence | None) -> bool:
        return fence is not None and head.owner == self._incarnation and head.fence == fence.number

    def _check_fence(self, fence: Fence, job: PendingAppend, head: KnownHead | None) -> None:
        if head is not None and not self._is_ours(head, fence):
            raise FenceLost(
                f"this node no longer owns session {job.session_id!r} (its fence is {head.fence}, ours was "
                f"{fence.number}): it may no longer write for its runs"
            )

    def _used(self, idempotency_key: IdempotencyKey, job: PendingAppend) -> Replayed | KeyConflict | None:
        key, now_ms = clean(idempotency_key.key), job.records[0].event.at_ms
        known = self._once[key][1] if key in self._once else self._lookups.keys.get(key)
        if known is not None and known.expires_at_ms <= now_ms and key not in self._once:
            self.used_up_keys.append(key)
        return earlier_answer(known, digest=clean(idempotency_key.digest), now_ms=now_ms)

    def _create(self, job: PendingAppend) -> KnownHead:
        head = KnownHead(self._new_keys.pop(0), rows.SessionRow(session_id=job.session_id))
        if job.fence is not None:
            head.owner, head.fence = self._incarnation, job.fence.number
        self._heads.put(head)
        self._created[job.session_id] = head
        self.loud.add(head.key)
        return head

    def _append(self, job: PendingAppend, head: KnownHead) -> Appended:
        session_id, key = job.session_id, head.key
        if session_id not in self.touched:
            self.touched[session_id] = head
            self._heads.put(head)
        if job.fence is None:
            self._fences.setdefault(key, 0)
        else:
            self._fences[key] = job.fence.number
        head.last_ms = keep_order(job.records, head.last_ms)
        first = seq = head.last_seq + 1
        for seq, record in enumerate(job.records, first):
            record.seq = seq
            self._events.append((key, record))
        if not job.is_quiet:
            self._index(job, head)
        head.last_seq = seq
        self.bytes += job.bytes
        self.count += len(job.records)
        if job.idempotency_key is not None:
            self._once[clean(job.idempotency_key.key)] = (key, job.idempotency_key)
        appended = Appended(first, seq)
        self.jobs.append((job, appended))
        return appended

    def _index(self, job: PendingAppend, head: KnownHead) -> None:
        counts = job.fence is not None or counts_usage(one.event for one in job.records)
        known = _PlannedRows(self._runs, self._asks, head, self._lookups)
        for nth, record in enumerate(job.records):
            event = record.event
            if type(event) not in rows.QUIET:
                self.loud.add(head.key)
                changes = index_event(head, record.seq, event=event, known=known, counts=counts)
                self._gather(head, changes, home=rows.home_after(event))
                if changes.text is not None:
                    self._add_text(head, changes.text, words=(job.vectors or {}).get(nth))

    def _gather(self, head: KnownHead, changes: RowChanges, *, home: str | None) -> None:
        if home is not None:
            head.home = home
        if home is not None or changes.session is not None:
            session_id = head.row.session_id
            if session_id not in self._created:
                self._changed[session_id] = head
        if changes.run is not None:
            self._put_run(head, changes.run)
        if changes.usage:
            self._add_usage(head.key, changes.usage)
        if changes.ask is not None:
            self._asks[clean(changes.ask.ask_id)] = changes.ask
        if changes.blobs:
            self._blobs.update(map(clean, changes.blobs))
            self._refs.update(dict.fromkeys((clean(name), head.key) for name in changes.blobs))

    def _put_run(self, head: KnownHead, run: rows.RunRow) -> None:
        run_id = clean(run.run_id)
        self._runs[run_id] = run
        if run.status == "ended":
            head.runs.pop(run_id, None)
        else:
            head.runs[run_id] = run

    def _add_text(self, head: KnownHead, found: rows.SearchText, *, words: list[str] | None) -> None:
        parts = words or vectors(found.text)
        # A title is replaced by the next one, which is simple only if both are one row.
        self._texts[head.key, found.seq] = (found.text, parts if found.seq else parts[:1])

    def _add_usage(self, session: int, used: Sequence[UsageRow]) -> None:
        for row in used:
            place = row.day, row.api_key, row.target
            known = self._usage.get(place)
            self._usage[place] = row if known is None else known.plus(row)
            own = self._session_usage.get((row.day, session))
            self._session_usage[row.day, session] = row if own is None else own.plus(row)

    def statement(self) -> tuple[Query, dict[str, Any]]:
        """The statement, and its parameters without those of the node."""
        keys = sorted(self._fences.keys() - {head.key for head in self._created.values()})
        bodies = [record.body for _, record in self._events]
        bindings: dict[str, Any] = {
            "keys": keys,
            "fences": [self._fences[key] for key in keys],
            "session": [key for key, _ in self._events],
            "seq": [record.seq for _, record in self._events],
            "crc": list(map(crc32, bodies)),
            "body": bodies,
        }
        parts: tuple[str, ...] = ()
        if self.loud:
            tables = self._tables()
            parts = tuple(name for name in _PARTS if tables.get(name))
            bindings |= {name: _json(found) for name, found in tables.items() if found}
            if "changed" in parts:
                bindings["changing"] = sorted(head.key for head in self._changed.values())
            bindings |= self._arrays()
            parts += tuple(name for name in _ARRAY_PARTS if bindings[_ARRAY_PARTS[name]])
        return append_statement(parts), bindings

    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        return {
            "created": [
                _session(head) | {"owner": head.owner, "fence": head.fence} for head in self._created.values()
            ],
            "changed": [_session(head) for head in self._changed.values()],
            "usage": [asdict(row) for row in self._usage.values()],
            "session_usage": [
                {name: getattr(row, name) for name in (*_ROW_COUNTS, "cost_usd")}
                | {"day": day, "session": session}
                for (day, session), row in self._session_usage.items()
            ],
            "runs": [asdict(row) | {"session": self._key(row)} for row in self._runs.values()],
            "asks": [asdict(row) | {"session": self._key(row)} for row in self._asks.values()],
        }

    def _arrays(self) -> dict[str, list[Any]]:
        once = list(self._once.items())
        texts = [
            (session, seq, part, len(parts), clean(text) if part == 0 else "", words)
            for (session, seq), (text, parts) in self._texts.items()
            for part, words in enumerate(parts)
        ]
        names = ("text_session", "text_seq", "text_part", "text_parts", "text_text", "text_words")
        return {
            "once_key": [key for key, _ in once],
            "once_session": [session for _, (session, _) in once],
            "once_digest": [clean(one.digest) for _, (_, one) in once],
            "once_answer": [one.answer for _, (_, one) in once],
            "once_expires_at_ms": [one.expires_at_ms for _, (_, one) in once],
            **{name: [row[nth] for row in texts] for nth, name in enumerate(names)},
            "blob_names": list(self._blobs),
            "blob_counts": list(self._blobs.values()),
            "ref_blob": [blob for blob, _ in self._refs],
            "ref_session": [session for _, session in self._refs],
        }

    def _key(self, row: rows.RunRow | rows.AskRow) -> int:
        return self.touched[row.session_id].key


def _session(head: KnownHead) -> dict[str, Any]:
    return asdict(head.row) | {"key": head.key, "home": head.home}


def _json(found: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode([_clean_row(row) for row in found]).decode()


def _clean_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}


class DeltaPlan:
    """The appends of one statement; like `AppendPlan`, for deltas only. `plan_deltas` makes it."""

    used_up_keys: Sequence[str] = ()
    loud: Collection[int] = ()

    def __init__(self, jobs: Sequence[PendingAppend], *, heads: Sequence[KnownHead]) -> None:
        """Plan to append to the logs with these heads, which are changed as if it had succeeded."""
        self.was_sent = False  # a lost connection may have written it
        self.results: list[Appended] = []
        self._keys: list[int] = []
        self._seqs: list[int] = []
        self._bodies: list[bytes] = []
        # In one pass and without calls: this is done for every delta of every run.
        keys, seqs, bodies, results = self._keys, self._seqs, self._bodies, self.results
        for job, head in zip(jobs, heads, strict=True):
            key, records = head.key, job.records
            first = seq = head.last_seq + 1
            at_ms = records[0].event.at_ms
            if len(records) > 1 or at_ms < head.last_ms:
                at_ms = keep_order(records, head.last_ms)
            head.last_ms = at_ms
            for seq, record in enumerate(records, first):
                record.seq = seq
                keys.append(key)
                seqs.append(seq)
                bodies.append(record.body)
            head.last_seq = seq
            results.append(Appended(first, seq))
        self.jobs = list(zip(jobs, results, strict=True))
        self.touched = {job.session_id: head for job, head in zip(jobs, heads, strict=True)}
        self.bytes = sum([job.bytes for job in jobs])

    @property
    def count(self) -> int:
        """How many events it writes."""
        return len(self._seqs)

    def tops(self) -> dict[int, int]:
        """The last seq of each log after it, by key."""
        return dict(zip(self._keys, self._seqs, strict=True))

    def firsts(self) -> dict[str, list[int]]:
        """The first event of each append, by which it is recognised in the database."""
        return {
            "session": [self.touched[job.session_id].key for job, _ in self.jobs],
            "seq": [appended.first_seq for appended in self.results],
            "crc": [crc32(job.records[0].body) for job, _ in self.jobs],
        }

    def statement(self) -> tuple[Query, dict[str, Any]]:
        """The statement, and its parameters without those of the node."""
        return delta_statement(), {
            "session": self._keys,
            "seq": self._seqs,
            "crc": list(map(crc32, self._bodies)),
            "body": self._bodies,
            "sessions": len(self.touched),
            "fences": sum([head.fence for head in self.touched.values()]),
        }


def plan_deltas(heads: Heads, jobs: Sequence[PendingAppend], *, incarnation: int) -> DeltaPlan | None:
    """The plan of these appends; None if something other than their heads has to be known.

    Then no head was changed: an append that goes by a head whose last seq is too high leaves a gap.
    """
    found: list[KnownHead] = []
    for job, head in zip(jobs, heads.get_all([job.session_id for job in jobs]), strict=True):
        fence = job.fence
        if (
            not job.is_quiet
            or head is None
            or fence is None
            or head.fence != fence.number
            or head.owner != incarnation
        ):
            return None
        found.append(head)
    plan = DeltaPlan(jobs, heads=found)
    heads.used(plan.touched)
    return plan
