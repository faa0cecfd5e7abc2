"""Thinning a log: consecutive deltas whose text is repeated by a later event are joined into one delta.

The same run could have written the thinned log on a busier day, when more text is gathered into fewer deltas.
So everything that reads a log can read a thinned one. A reader that stopped in the middle of a joined stretch
continues after it, and finds the whole text in the `.done` event that follows.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, cast
from zlib import crc32

import apsw
from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import encode
from holdfast.interfaces.journal import Record

STRETCH_RECORDS_MAX = 512
STRETCH_CHARS_MAX = 16 * 1024
# The most records in one transaction, which bounds how long an append waits for it.
STEP_RECORDS_MAX = 512
READ_AT_ONCE = 512

Delta: TypeAlias = e.TextDelta | e.ReasoningDelta
_DELTA_OF: Mapping[type[e.Event], type[Delta]] = MappingProxyType(
    {e.TextDone: e.TextDelta, e.ReasoningDone: e.ReasoningDelta}
)
_Key: TypeAlias = tuple[str, type[Delta], int]


class Stretch(Struct):
    """Consecutive deltas of one segment."""

    first: int
    last: int
    chars: int

    @property
    def count(self) -> int:
        """The number of records."""
        return self.last - self.first + 1

    def takes(self, seq: int, chars: int) -> bool:
        """Whether the delta is the next one and still fits."""
        return (
            seq == self.last + 1
            and self.count < STRETCH_RECORDS_MAX
            and self.chars + chars <= STRETCH_CHARS_MAX
        )


class ThinningPlan:
    """Chooses deltas to join, given the log's events in order, for runs that ended before a given time.

    `due` has the stretches of such runs, and `upto_seq` is the ending of the last of them. `is_over` means
    that the next run ended later, so nothing after it is due. Planning can start right after any run's
    ending.
    """

    def __init__(self, before_ms: int) -> None:
        self._before_ms = before_ms
        self._newest: tuple[_Key, Stretch] | None = None  # the next record may continue it
        self._open: defaultdict[_Key, list[Stretch]] = defaultdict(list)  # their `.done` is still to come
        self._settled: defaultdict[str, list[Stretch]] = defaultdict(list)  # by run
        self._attempts: dict[str, str] = {}  # the newest of each run
        self.due: list[Stretch] = []
        self.upto_seq = 0
        self.is_over = False

    def add(self, seq: int, event: e.Event) -> None:
        """Take the next event of the log."""
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
        """Whether more is due than fits in one step."""
        return sum(stretch.count for stretch in self.due) > STEP_RECORDS_MAX

    def next_due(self) -> Sequence[Stretch]:
        """Take the stretches of the next step out of `due`."""
        count = 0
        for nth, stretch in enumerate(self.due):
            count += stretch.count
            if count > STEP_RECORDS_MAX:
                taken, self.due = self.due[:nth], self.due[nth:]
                return taken
        taken, self.due = self.due, []
        return taken


def joined_body(records: Sequence[Record]) -> bytes:
    """The body of the one delta that replaces several."""
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


class Joining(Struct, frozen=True):
    """One step of thinning a stored log: some stretches, and how far the log has been examined.

    `key` distinguishes the session from a later one with the same id.
    """

    session_id: str
    key: int
    stretches: Sequence[Stretch] = ()
    upto_seq: int = 0
    upto_ms: int = 0

    def write(self, db: apsw.Connection, sql: Mapping[str, str]) -> int:
        """Write the step in the current transaction; return how many records this removed.

        Stretches that were joined before and sessions that were purged meanwhile are skipped. Errors are
        raised before anything is written.
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
