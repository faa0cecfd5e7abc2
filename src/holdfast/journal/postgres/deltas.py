"""What one append statement writes if it has nothing but deltas of runs that this node owns.

That is nearly every statement while answers stream. No row changes, so nothing is looked up, and the lists
that are sent are made in one pass.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from holdfast.interfaces.journal import Appended
from holdfast.journal.append_rules import keep_order
from holdfast.journal.postgres.heads import Heads, KnownHead
from holdfast.journal.postgres.jobs import PendingAppend
from holdfast.journal.postgres.queries import Query, delta_statement


class DeltaPlan:
    """The appends of one statement; like `AppendPlan`, for deltas only. `plan_deltas` makes it."""

    used_up_keys: Sequence[str] = ()

    def __init__(self) -> None:
        self.jobs: list[tuple[PendingAppend, Appended]] = []
        self.touched: dict[str, KnownHead] = {}
        self.bytes = 0
        self.was_sent = False  # a lost connection may have written it
        self._keys: list[int] = []
        self._seqs: list[int] = []
        self._bodies: list[bytes] = []

    @property
    def count(self) -> int:
        """How many events it writes."""
        return len(self._seqs)

    def tops(self) -> list[tuple[int, int, bool]]:
        """The key and last seq of each log after it; no log has more than deltas."""
        return [(head.key, head.last_seq, False) for head in self.touched.values()]

    def firsts(self) -> dict[str, list[int]]:
        """The first event of each append, by which it is recognised in the database."""
        return {
            "session": [self.touched[job.session_id].key for job, _ in self.jobs],
            "seq": [appended.first_seq for _, appended in self.jobs],
            "crc": [crc32(job.records[0].body) for job, _ in self.jobs],
        }

    def add(self, job: PendingAppend, head: KnownHead) -> None:
        """Add an append to the log with this head, which is brought up to date as if it had succeeded."""
        self.touched[job.session_id] = head
        head.last_ms = keep_order(job.records, head.last_ms)
        key, seq = head.key, head.last_seq
        first = seq + 1
        for record in job.records:
            seq += 1
            record.seq = seq
            self._keys.append(key)
            self._seqs.append(seq)
            self._bodies.append(record.body)
        head.last_seq = seq
        self.bytes += job.bytes
        self.jobs.append((job, Appended(first, seq)))

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
    for job in jobs:
        head, fence = heads.get(job.session_id), job.fence
        if (
            head is None
            or fence is None
            or not job.is_quiet
            or job.new_types
            or head.owner != incarnation
            or head.fence != fence.number
        ):
            return None
        found.append(head)
    plan = DeltaPlan()
    for job, head in zip(jobs, found, strict=True):
        heads.put(head)
        plan.add(job, head)
    return plan
