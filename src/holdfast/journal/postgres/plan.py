"""What one append statement writes: events, and the rows, search text and keys that go with them.

Many appends share one statement. An append that is declined or refused adds nothing to it, so it doesn't
affect the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, assert_never
from zlib import crc32

import msgspec
from msgspec.structs import asdict

from holdfast.events import Event, SessionCreated, SessionForked
from holdfast.folds import rows
from holdfast.folds.usage import UsageRow, usage_of
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    FenceLost,
    IdempotencyKey,
    IfAskOpen,
    IfRunOpen,
    IfRunsOpenBelow,
    IfSessionKnown,
    IfSessionNew,
    IfUntitled,
    KeyConflict,
    Replayed,
    UnknownSession,
)
from holdfast.journal.postgres.heads import Heads, KnownHead, Lookups
from holdfast.journal.postgres.jobs import PendingAppend
from holdfast.journal.postgres.queries import Query, append_statement
from holdfast.journal.postgres.words import clean, vectors

_PARTS = ("created", "changed", "usage", "session_usage", "runs", "asks", "once", "texts", "blobs")
_ROW_COUNTS = ("runs", "relayed_calls", "input_tokens", "cached_tokens", "output_tokens", "unpriced_calls")
Refused = Declined | Replayed | KeyConflict


class NotFresh(Exception):
    """Something speaks against the append, but what is known of its log may be out of date."""


class AppendPlan:
    """Gathers the appends of one statement; `heads` is brought up to date as if it had succeeded."""

    def __init__(self, heads: Heads, lookups: Lookups, *, incarnation: int, new_keys: list[int]) -> None:
        self._heads = heads
        self._lookups = lookups
        self._incarnation = incarnation
        self._new_keys = new_keys
        self.jobs: list[tuple[PendingAppend, Appended]] = []
        self.was_sent = False  # a lost connection may have written it
        self.used_up_keys: list[str] = []  # idempotency keys that have expired and are used again
        self.loud: set[int] = set()  # keys of sessions in which more than deltas were appended
        self._touched: dict[str, KnownHead] = {}
        self._fences: dict[int, int] = {}
        self._created: dict[str, KnownHead] = {}
        self._changed: dict[str, KnownHead] = {}
        self._events: tuple[list[int], list[int], list[int], list[bytes]] = ([], [], [], [])
        self._runs: dict[str, rows.RunRow] = {}
        self._asks: dict[str, rows.AskRow] = {}
        self._once: dict[str, tuple[int, IdempotencyKey]] = {}
        self._texts: dict[tuple[int, int], tuple[str, list[str]]] = {}
        self._blobs: Counter[str] = Counter()
        self._refs: dict[tuple[str, int], None] = {}
        self._usage: dict[tuple[int, str, str], UsageRow] = {}
        self._session_usage: dict[tuple[int, int], UsageRow] = {}

    @property
    def session_ids(self) -> Sequence[str]:
        """The sessions that it writes to."""
        return list(self._touched)

    def tops(self) -> list[tuple[int, int, bool]]:
        """The key and last seq of each log after it, and whether more than deltas were appended."""
        return [(head.key, head.last_seq, head.key in self.loud) for head in self._touched.values()]

    def firsts(self) -> dict[str, list[int]]:
        """The first event of each append, by which it is recognised in the database."""
        found: dict[str, list[int]] = {"session": [], "seq": [], "crc": []}
        for job, appended in self.jobs:
            found["session"].append(self._touched[job.session_id].key)
            found["seq"].append(appended.first_seq)
            found["crc"].append(crc32(job.records[0].body))
        return found

    def add(self, job: PendingAppend) -> Appended | Refused:
        """Add the append, or say why not; raises JournalError, or NotFresh to be tried on its own."""
        is_fresh = job.session_id in self._lookups.fresh
        head = self._touched.get(job.session_id) or (
            self._lookups.fresh[job.session_id] if is_fresh else self._heads.get(job.session_id)
        )
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
            self._check_fence(job.fence.number, job, head)
        if job.idempotency_key is not None and (known := self._used(job.idempotency_key, job)) is not None:
            return known
        for condition in job.when:
            if not self._holds(condition, job.session_id, head):
                return Declined(condition)
        if head is None and not isinstance(job.records[0].event, SessionCreated):
            raise UnknownSession(f"there is no session {job.session_id!r}; it may have been purged")
        return None

    def _check_fence(self, number: int, job: PendingAppend, head: KnownHead | None) -> None:
        if head is None or (head.owner == self._incarnation and head.fence == number):
            return
        raise FenceLost(
            f"this node no longer owns session {job.session_id!r} (its fence is {head.fence}, ours was "
            f"{number}): it may no longer write for its runs"
        )

    def _used(self, idempotency_key: IdempotencyKey, job: PendingAppend) -> Replayed | KeyConflict | None:
        key = clean(idempotency_key.key)
        known = self._once[key][1] if key in self._once else self._lookups.keys.get(key)
        if known is None:
            return None
        if known.expires_at_ms <= job.records[0].event.at_ms:
            if key not in self._once:
                self.used_up_keys.append(key)
            return None
        return Replayed(known.answer) if known.digest == clean(idempotency_key.digest) else KeyConflict()

    def _holds(self, condition: Condition, session_id: str, head: KnownHead | None) -> bool:
        match condition:
            case IfRunOpen():
                run = self._run(condition.run_id, head)
                return run is not None and run.session_id == session_id and run.status != "ended"
            case IfAskOpen():
                ask = self._ask(condition.ask_id)
                return ask is not None and ask.session_id == session_id and ask.is_open_at(condition.at_ms)
            case IfSessionNew():
                return head is None
            case IfSessionKnown():
                return head is not None and not head.row.purge_at_ms
            case IfRunsOpenBelow():
                return (0 if head is None else head.open_runs) < condition.count
            case IfUntitled():
                return head is not None and not head.row.titled and not head.row.purge_at_ms
            case _:
                assert_never(condition)

    def _run(self, run_id: str, head: KnownHead | None) -> rows.RunRow | None:
        run_id = clean(run_id)
        known = self._runs.get(run_id) or (head.runs.get(run_id) if head is not None else None)
        return known or self._lookups.runs.get(run_id)

    def _ask(self, ask_id: str) -> rows.AskRow | None:
        ask_id = clean(ask_id)
        return self._asks.get(ask_id) or self._lookups.asks.get(ask_id)

    def _create(self, job: PendingAppend) -> KnownHead:
        head = KnownHead(self._new_keys.pop(0), rows.SessionRow(session_id=job.session_id))
        if job.fence is not None:
            head.owner, head.fence = self._incarnation, job.fence.number
        self._heads.put(head)
        self._created[job.session_id] = head
        self.loud.add(head.key)
        return head

    def _append(self, job: PendingAppend, head: KnownHead) -> Appended:
        self._touched[job.session_id] = head
        self._heads.put(head)
        if job.session_id not in self._created:
            self._fences[head.key] = max(self._fences.get(head.key, 0), job.fence.number if job.fence else 0)
        seq, key = head.last_seq, head.key
        keys, seqs, crcs, bodies = self._events
        # A fork copies events whose usage was added when they happened.
        counts = job.fence is not None or not any(isinstance(one.event, SessionForked) for one in job.records)
        for nth, record in enumerate(job.records):
            record.seq = seq = seq + 1
            body = record.body
            keys.append(key)
            seqs.append(seq)
            crcs.append(crc32(body))
            bodies.append(body)
            event = record.event
            if type(event) not in rows.QUIET:
                self.loud.add(key)
                self._index(head, seq, event=event, counts=counts)
                self._add_text(head, seq, event=event, words=(job.vectors or {}).get(nth))
        appended = Appended(head.last_seq + 1, seq)
        head.last_seq = seq
        if job.idempotency_key is not None:
            self._once[clean(job.idempotency_key.key)] = (key, job.idempotency_key)
        self.jobs.append((job, appended))
        return appended

    def _index(self, head: KnownHead, seq: int, *, event: Event, counts: bool) -> None:
        session_id = head.row.session_id
        earlier = run = None
        row = rows.apply_to_session(head.row, event)
        home = rows.home_after(event)
        if row is not head.row or home is not None:
            head.row, head.home = row, head.home if home is None else home
            if session_id not in self._created:
                self._changed[session_id] = head
        if run_id := rows.run_of(event):
            earlier = self._run(run_id, head)
            run = rows.apply_to_run(earlier, seq, session_id=session_id, event=event)
            if run is not None and run is not earlier:
                self._put_run(head, run)
                head.open_runs += _is_open(run) - _is_open(earlier)
                head.begun_runs += _is_begun(run) - _is_begun(earlier)
        if counts:
            self._add_usage(head.key, usage_of(event, source=row.source, before=earlier, after=run))
        if ask_id := rows.ask_of(event):
            known = self._ask(ask_id)
            ask = rows.apply_to_ask(known, seq, session_id=session_id, event=event)
            if ask is not None and ask is not known:
                self._asks[clean(ask_id)] = ask
                head.open_asks += _needs_person(ask) - _needs_person(known)
        if named := rows.blobs_of(event):
            self._blobs.update(map(clean, named))
            self._refs.update(dict.fromkeys((clean(name), head.key) for name in named))

    def _put_run(self, head: KnownHead, run: rows.RunRow) -> None:
        run_id = clean(run.run_id)
        self._runs[run_id] = run
        if run.status == "ended":
            head.runs.pop(run_id, None)
        else:
            head.runs[run_id] = run

    def _add_text(self, head: KnownHead, seq: int, *, event: Event, words: list[str] | None) -> None:
        found = rows.search_text(seq, event)
        if found is not None:
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
        keys = sorted(self._fences)
        bindings: dict[str, Any] = {
            "keys": keys,
            "fences": [self._fences[key] for key in keys],
            "changing": sorted(head.key for head in self._changed.values()),
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
            "once": self._once,
            "texts": self._texts,
            "blobs": self._blobs,
        }
        parts = tuple(name for name in _PARTS if bindings[name])
        for name in ("created", "changed", "usage", "session_usage", "runs", "asks"):
            bindings[name] = msgspec.json.encode([_clean_row(row) for row in bindings[name]]).decode()
        bindings["session"], bindings["seq"], bindings["crc"], bindings["body"] = self._events
        return append_statement(parts), bindings | self._arrays()

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
        return self._touched[row.session_id].key


def _session(head: KnownHead) -> dict[str, Any]:
    return asdict(head.row) | {"key": head.key, "home": head.home}


def _clean_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}


def _is_begun(row: rows.RunRow | None) -> bool:
    return row is not None and row.status in {"running", "stopping"}


def _is_open(row: rows.RunRow | None) -> bool:
    return row is not None and row.status != "ended"


def _needs_person(row: rows.AskRow | None) -> bool:
    return row is not None and row.waits_for == "person"
