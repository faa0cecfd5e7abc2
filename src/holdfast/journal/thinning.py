"""Thinning a log: deltas in a row whose text a later event holds as a whole become one delta.

A thinned log is one that the same run could have written on a busier day, since there too text is gathered
into fewer and longer deltas. So whoever can read a log can read it thinned. Who has read half of a stretch
before it was joined goes on behind it and finds the whole text in the `.done` that follows.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, cast
from zlib import crc32

import apsw
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import encode
from holdfast.interfaces.journal import Record

STRETCH_RECORDS_MAX = 512
STRETCH_CHARS_MAX = 16 * 1024
# So many records go with one transaction; whoever appends meanwhile waits for no more than that.
STEP_RECORDS_MAX = 512
READ_AT_ONCE = 512

Delta: TypeAlias = e.TextDelta | e.ReasoningDelta
_DELTA_OF: Mapping[type[e.Event], type[Delta]] = MappingProxyType(
    {e.TextDone: e.TextDelta, e.ReasoningDone: e.ReasoningDelta}
)
_Key: TypeAlias = tuple[str, type[Delta], int]


@dataclass(slots=True)
class Stretch:
    """Deltas of one segment with consecutive seqs."""

    first: int
    last: int
    chars: int

    @property
    def count(self) -> int:
        """How many records it has."""
        return self.last - self.first + 1

    def takes(self, seq: int, chars: int) -> bool:
        """Whether one more delta belongs to it and fits in."""
        return (
            seq == self.last + 1
            and self.count < STRETCH_RECORDS_MAX
            and self.chars + chars <= STRETCH_CHARS_MAX
        )


class ThinningPlan:
    """What may be joined of the runs that ended before a time, from the log's events in their order.

    `due` are stretches of such runs, `upto_seq` the ending of the last of them, and `is_over` says that the
    next run ended later, so that nothing behind it is due. It is enough to begin behind the ending of a run.
    """

    def __init__(self, before_ms: int) -> None:
        self._before_ms = before_ms
        self._newest: tuple[_Key, Stretch] | None = None  # that the next record may continue
        self._open: defaultdict[_Key, list[Stretch]] = defaultdict(list)  # whose whole text has not come yet
        self._settled: defaultdict[str, list[Stretch]] = defaultdict(list)  # by run
        self._attempts: dict[str, str] = {}  # the newest of each run
        self.due: list[Stretch] = []
        self.upto_seq = 0
        self.is_over = False

    def add(self, seq: int, event: e.Event) -> None:
        """The next event of the log."""
        if isinstance(event, Delta):
            self._add_delta(seq, event)
            return
        self._newest = None
        match event:
            case e.TextDone() | e.ReasoningDone():
                found = self._open.pop((event.run_id, _DELTA_OF[type(event)], event.segment), ())
                self._settled[event.run_id] += [stretch for stretch in found if stretch.count > 1]
            case e.AttemptStarted():
                self._attempts[event.run_id] = event.attempt_id
                self._forget_open(event.run_id)
            case e.CallStarted():
                self._forget_open(event.run_id)
            case e.AttemptSuperseded() if self._attempts.get(event.run_id) == event.attempt_id:
                self._forget_open(event.run_id)
            case e.SessionRewound():
                self._open.clear()
            case e.RunEnded():
                self._end(seq, event)
            case _:
                pass

    def _add_delta(self, seq: int, event: Delta) -> None:
        key = (event.run_id, type(event), event.segment)
        chars = len(event.text)
        if self._newest is not None and self._newest[0] == key and self._newest[1].takes(seq, chars):
            stretch = self._newest[1]
            stretch.last, stretch.chars = seq, stretch.chars + chars
            return
        stretch = Stretch(seq, seq, chars)
        self._open[key].append(stretch)
        self._newest = (key, stretch)

    def _end(self, seq: int, event: e.RunEnded) -> None:
        if event.at_ms >= self._before_ms:
            self.is_over = True
            return
        self.due += self._settled.pop(event.run_id, ())
        self.upto_seq = seq
        self._attempts.pop(event.run_id, None)
        self._forget_open(event.run_id)

    def _forget_open(self, run_id: str) -> None:
        for key in [key for key in self._open if key[0] == run_id]:
            del self._open[key]

    @property
    def is_step_full(self) -> bool:
        """Whether more is due than one step takes."""
        return sum(stretch.count for stretch in self.due) > STEP_RECORDS_MAX

    def next_due(self) -> Sequence[Stretch]:
        """Stretches for one step, which are then no longer due."""
        count = 0
        for nth, stretch in enumerate(self.due):
            count += stretch.count
            if count > STEP_RECORDS_MAX:
                taken, self.due = self.due[:nth], self.due[nth:]
                return taken
        taken, self.due = self.due, []
        return taken


def joined_body(records: Sequence[Record]) -> bytes:
    """The body of one delta in place of several."""
    deltas = [cast("Delta", record.event) for record in records]
    return encode(replace(deltas[0], text="".join([delta.text for delta in deltas])))


def thinned(log: Sequence[Record], stretches: Sequence[Stretch]) -> list[Record]:
    """The records of a log with each stretch joined."""
    kept: list[Record] = []
    at = 0
    for stretch in sorted(stretches, key=lambda one: one.first):
        begin = bisect_left(log, stretch.first, lo=at, key=lambda record: record.seq)
        end = begin + stretch.count
        first = log[begin]
        kept += log[at:begin]
        kept.append(Record(first.session_id, first.seq, body=joined_body(log[begin:end])))
        at = end
    return [*kept, *log[at:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """One step of thinning a log in the file: some stretches, and how far the log is then looked through.

    `key` tells the session from a later one under the same id.
    """

    session_id: str
    key: int
    stretches: Sequence[Stretch] = ()
    upto_seq: int = 0
    upto_ms: int = 0

    def write(self, db: apsw.Connection, sql: Mapping[str, str]) -> int:
        """Write it within a transaction; how many records went. Raises before anything is written.

        Nothing happens to what was joined before, or to a session that was purged meanwhile.
        """
        gone = 0
        joins: list[dict[str, int | bytes]] = []
        for stretch in self.stretches:
            bounds = {"session": self.key, "first": stretch.first, "last": stretch.last}
            rows = cast(
                "list[tuple[int, int, bytes, int]]", db.execute(sql["read_stretch"], bounds).fetchall()
            )
            if len(rows) == stretch.count:
                records = [Record.verified(self.session_id, row[0], crc=row[1], body=row[2]) for row in rows]
                body = joined_body(records)
                length = sum(row[3] for row in rows)
                joins.append({**bounds, "crc": crc32(body), "body": body, "length": length})
                gone += len(rows) - 1
        for bindings in joins:
            for statement in sql["join_stretch"].split(";"):
                db.execute(statement, bindings)
        db.execute(
            sql["put_thinned"], {"session": self.key, "upto_seq": self.upto_seq, "upto_ms": self.upto_ms}
        )
        return gone
