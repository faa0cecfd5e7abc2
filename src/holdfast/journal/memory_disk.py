"""What a store in memory keeps, and what survives it: several stores may share one."""

import hashlib
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.folds import rows
from holdfast.interfaces import journal as seams
from holdfast.interfaces.journal import Record
from holdfast.journal.thinning import Plan, thinned


@dataclass(slots=True)
class MemoryDisk:
    """Logs, and what stands beside them; `thinned` says up to which seq and time each log is."""

    fence: int = 0
    logs: dict[str, list[Record]] = field(default_factory=dict[str, list[Record]])
    sessions: dict[str, rows.SessionRow] = field(default_factory=dict[str, rows.SessionRow])
    runs: dict[str, rows.RunRow] = field(default_factory=dict[str, rows.RunRow])
    asks: dict[str, rows.AskRow] = field(default_factory=dict[str, rows.AskRow])
    texts: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    once: dict[str, tuple[str, seams.Once]] = field(default_factory=dict[str, tuple[str, seams.Once]])
    notes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    blob_refs: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    blobs_touched_s: dict[str, float] = field(default_factory=dict[str, float])
    blobs_to_be_named: Counter[str] = field(default_factory=Counter[str])
    blobs_offered: Counter[str] = field(default_factory=Counter[str])
    thinned: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def put_blob(self, data: bytes, promises: Counter[str]) -> str:
        """See Blobs.put_blob; `promises` counts for what it was put."""
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        self.blobs_touched_s[name] = time.time()
        promises[name] += 1
        return name

    def keep_blob(self, name: str) -> bool:
        """See Blobs.keep_blob."""
        if name not in self.blobs:
            return False
        self.blobs_touched_s[name] = time.time()
        self.blobs_to_be_named[name] += 1
        self.blobs_offered -= Counter((name,))
        return True

    def forget_blobs_of(self, session_id: str) -> None:
        """What the session alone named goes with it, unless someone has put it for an event to come."""
        for name, named_by in list(self.blob_refs.items()):
            named_by.discard(session_id)
            if not named_by:
                del self.blob_refs[name]
                if name not in self.blobs_to_be_named and name not in self.blobs_offered:
                    self._drop_blob(name)

    def sweep_blobs(self, since_unix_s: float) -> int:
        """See Store.sweep_blobs."""
        touched = self.blobs_touched_s
        old = [name for name in touched if name not in self.blob_refs and touched[name] < since_unix_s]
        for name in old:
            self._drop_blob(name)
        return len(old)

    def _drop_blob(self, name: str) -> None:
        for kept in (self.blobs, self.blobs_touched_s, self.blobs_to_be_named, self.blobs_offered):
            kept.pop(name, None)

    def last_seq(self, session_id: str) -> int:
        """See Journal.last_seq."""
        log = self.logs.get(session_id)
        return log[-1].seq if log else 0

    def records(self, session_id: str, *, after: int, limit: int) -> Sequence[Record]:
        """See Journal.read."""
        log = self.logs.get(session_id, [])
        first = bisect_right(log, after, key=_seq)
        return log[first : first + limit]

    def thin(self, session_id: str, before_ms: int) -> int:
        """See Journal.thin; all of it at once."""
        log = self.logs.get(session_id)
        if log is None:
            return 0
        plan = Plan(before_ms)
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
        """See Index.unthinned."""
        return [
            row.session_id
            for row in self.sessions.values()
            if not row.purge_at_ms
            and row.created_ms < before_ms
            and self.thinned.get(row.session_id, (0, 0))[1] < min(row.updated_ms, before_ms)
        ]


def _seq(record: Record) -> int:
    return record.seq
