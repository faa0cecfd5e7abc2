"""What one append statement writes if it has nothing but deltas of runs that this node owns.

That is nearly every statement while answers stream. No row changes, so nothing is looked up, and the lists
that are sent are made in one pass.
"""

from collections.abc import Collection, Sequence
from typing import Any
from zlib import crc32

from holdfast.features.postgres.heads import Heads, KnownHead
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.queries import Query, delta_statement
from holdfast.interfaces.journal import Appended
from holdfast.journal.append_rules import keep_order


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
