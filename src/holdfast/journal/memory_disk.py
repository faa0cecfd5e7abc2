"""The data of a store in memory, which survives the store.

Several `MemoryStore`s on one disk behave like several processes on one file.
"""

import hashlib
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from holdfast.folds import rows
from holdfast.folds.usage import UsageRow
from holdfast.interfaces.journal import IdempotencyKey, Record
from holdfast.journal.append_rules import RowChanges
from holdfast.journal.thinning import ThinningPlan, thinned


class MemoryDisk(Struct):
    """The logs and everything stored beside them; `thinned` says how far each log has been thinned."""

    fence: int = 0
    logs: dict[str, list[Record]] = field(default_factory=dict[str, list[Record]])
    sessions: dict[str, rows.SessionRow] = field(default_factory=dict[str, rows.SessionRow])
    runs: dict[str, rows.RunRow] = field(default_factory=dict[str, rows.RunRow])
    asks: dict[str, rows.AskRow] = field(default_factory=dict[str, rows.AskRow])
    texts: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    idempotency_keys: dict[str, tuple[str, IdempotencyKey]] = field(
        default_factory=dict[str, tuple[str, IdempotencyKey]]
    )
    notes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    blob_refs: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    blobs_touched_s: dict[str, float] = field(default_factory=dict[str, float])
    blobs_to_be_named: Counter[str] = field(default_factory=Counter[str])
    blobs_offered: Counter[str] = field(default_factory=Counter[str])
    thinned: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    usage: dict[tuple[int, str, str], UsageRow] = field(default_factory=dict[tuple[int, str, str], UsageRow])
    session_usage: dict[tuple[str, int], UsageRow] = field(default_factory=dict[tuple[str, int], UsageRow])

    def bytes_of(self, session_id: str) -> int:
        """How many bytes the events and blobs of the session have."""
        blobs = [name for name, named_by in self.blob_refs.items() if session_id in named_by]
        events = sum(len(record.body) for record in self.logs.get(session_id, ()))
        return events + sum(len(self.blobs.get(name, b"")) for name in blobs)

    def known_run(self, run_id: str) -> rows.RunRow | None:
        """The row of a run."""
        return self.runs.get(run_id)

    def known_ask(self, ask_id: str) -> rows.AskRow | None:
        """The row of an ask."""
        return self.asks.get(ask_id)

    def index(self, session: rows.SessionRow, changes: RowChanges) -> None:
        """Store what an event of the session changes."""
        session_id = session.session_id
        self.sessions[session_id] = session
        if changes.run is not None:
            self.runs[changes.run.run_id] = changes.run
        if changes.ask is not None:
            self.asks[changes.ask.ask_id] = changes.ask
        if changes.text is not None:
            self.texts.setdefault(session_id, {})[changes.text.seq] = changes.text.text
        self.add_usage(session_id, changes.usage)
        self.blobs_to_be_named -= Counter(changes.blobs)
        for name in changes.blobs:
            self.blob_refs.setdefault(name, set()).add(session_id)

    def add_usage(self, session_id: str, used: Sequence[UsageRow]) -> None:
        """Add to the sums of days and of the session."""
        for row in used:
            place, own = (row.day, row.api_key, row.target), (session_id, row.day)
            self.usage[place] = self.usage[place].plus(row) if place in self.usage else row
            known = self.session_usage.get(own)
            self.session_usage[own] = known.plus(row) if known else row

    def put_blob(self, data: bytes, promises: Counter[str]) -> str:
        """Store the bytes and count them in `promises`; return their name."""
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        self.blobs_touched_s[name] = time.time()
        promises[name] += 1
        return name

    def keep_blob(self, name: str) -> bool:
        """Reserve a stored blob for an event that is about to name it; False if it isn't stored."""
        if name not in self.blobs:
            return False
        self.blobs_touched_s[name] = time.time()
        self.blobs_to_be_named[name] += 1
        self.blobs_offered -= Counter((name,))
        return True

    def forget_blobs_of(self, session_id: str) -> None:
        """Drop the blobs that only this session names, unless an event is still to come."""
        for name, named_by in list(self.blob_refs.items()):
            named_by.discard(session_id)
            if not named_by:
                del self.blob_refs[name]
                if name not in self.blobs_to_be_named and name not in self.blobs_offered:
                    self._drop_blob(name)

    def sweep_blobs(self, since_unix_s: float) -> int:
        """Remove old blobs that no event names; return how many."""
        touched = self.blobs_touched_s
        old = [name for name in touched if name not in self.blob_refs and touched[name] < since_unix_s]
        for name in old:
            self._drop_blob(name)
        return len(old)

    def _drop_blob(self, name: str) -> None:
        for kept in (self.blobs, self.blobs_touched_s, self.blobs_to_be_named, self.blobs_offered):
            kept.pop(name, None)

    def last_seq(self, session_id: str) -> int:
        """The newest seq of the log, 0 if it is empty."""
        log = self.logs.get(session_id)
        return log[-1].seq if log else 0

    def records(self, session_id: str, *, after: int, limit: int) -> Sequence[Record]:
        """Up to `limit` records with a higher seq."""
        log = self.logs.get(session_id, [])
        first = bisect_right(log, after, key=_seq)
        return log[first : first + limit]

    def thin(self, session_id: str, before_ms: int) -> int:
        """Join the deltas of runs that ended before then; return how many events this removed."""
        log = self.logs.get(session_id)
        if log is None:
            return 0
        plan = ThinningPlan(before_ms)
        begin_after, _ = self.thinned.get(session_id, (0, 0))
        for record in self.records(session_id, after=begin_after, limit=len(log)):
            plan.add(record.seq, record.event)
            if plan.is_over:
                break
        count = len(log)
        log[:] = thinned(log, plan.due)
        self.thinned[session_id] = max(begin_after, plan.upto_seq), before_ms
        return count - len(log)

    def unthinned(self, before_ms: int) -> Sequence[str]:
        """Ids of sessions that can be thinned for runs that ended before then."""
        return [
            row.session_id
            for row in self.sessions.values()
            if not row.purge_at_ms
            and row.created_ms < before_ms
            and self.thinned.get(row.session_id, (0, 0))[1] < min(row.updated_ms, before_ms)
        ]


def _seq(record: Record) -> int:
    return record.seq
