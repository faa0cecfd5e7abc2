"""Where events are first written: in order of arrival, until many of them move into their logs at once.

The logs are clustered, so reading one walks the tree once. The price is that each log a commit writes to
costs a page of the file. In order of arrival, thirty deltas of thirty logs share one page.
"""

from collections.abc import Mapping
from zlib import crc32

import apsw

from holdfast.events import RunQueued
from holdfast.interfaces.journal import Record
from holdfast.journal.sqlite.histories import Histories
from holdfast.journal.sqlite.queries import insert_events
from holdfast.journal.sqlite.tuning import Tuning

COLUMNS = 5
ROWS_MAX = 64
FEW_ROWS = 8  # up to so many, there is a statement for each number of rows; above, for powers of two
MOVED_MAX = 16_000
MOVED_BYTES_MAX = 2 * 1024 * 1024
# An event that fills much of a page goes straight into its log.
APPEND_BYTES_MAX = 2_048


class RecentEvents:
    """The events of one commit, and the state of those that haven't moved yet.

    `arrivals` numbers what was written: each recent event, and each commit that has none.
    """

    def __init__(self, db: apsw.Connection, sql: Mapping[str, str], tuning: Tuning) -> None:
        self._db = db
        self._tuning = tuning
        self._sql = sql
        self._histories = Histories(db, sql)
        self._small: list[int | bytes] = []  # the columns of all rows, flattened
        self._large: list[tuple[int, int, int, bytes]] = []
        self._rows = 0
        self._bytes = 0
        self._logs: set[int] = set()
        self.arrivals = 0

    def found(self, arrivals: int, rows: int) -> None:
        """Set the counts that were read from the file."""
        self.arrivals, self._rows = arrivals, rows
        self._bytes = 0
        self._logs.clear()

    def add_large(self, log: int, record: Record) -> None:
        """Add an event of an append that is large enough for its own page."""
        event, body = record.event, record.body
        if type(event) is RunQueued and event.history:
            body = self._histories.stored(record, session=log)
        self._large.append((log, record.seq, crc32(record.body), body))

    def add(self, log: int, record: Record) -> None:
        """Add an event of a small append."""
        self.arrivals = arrival = self.arrivals + 1
        body = record.body
        self._small += (arrival, log, record.seq, crc32(body), body)
        self._logs.add(log)
        self._bytes += len(body)

    def clear(self) -> None:
        """Discard what was added since the last `flush`."""
        self._small.clear()
        self._large.clear()

    def flush(self) -> None:
        """Write what was added, and move all recent events once there are many."""
        if self._large:
            self._db.executemany(self._sql["insert_large"], self._large)
        self._insert() if self._small else self.count()
        self.clear()
        enough = min(max(self._tuning.moved_min, self._tuning.moved_of_log * len(self._logs)), MOVED_MAX)
        if self._rows >= enough or self._bytes >= MOVED_BYTES_MAX:
            self.move()

    def _insert(self) -> None:
        """Insert many rows per statement, because each one may wait for the GIL while the loop is busy."""
        start, left = 0, len(self._small) // COLUMNS
        self._rows += left
        while left:
            count = left if left <= FEW_ROWS else min(ROWS_MAX, 1 << left.bit_length() - 1)
            end = start + count * COLUMNS
            self._db.execute(insert_events(count), self._small[start:end])
            start, left = end, left - count

    def move(self) -> None:
        """Move all recent events into their logs."""
        self._db.execute(self._sql["move_events"])
        self._db.execute(self._sql["empty_recent"])
        self.found(self.arrivals, 0)
        self.count()

    def move_log(self, log: int, upto_seq: int) -> None:
        """Move all recent events if some are in this log up to the seq, before the log is changed."""
        if self._db.execute(self._sql["is_recent"], {"session": log, "upto_seq": upto_seq}).fetchall():
            self.move()

    def purge_histories(self, log: int) -> None:
        """Release what the histories of a log's runs share with others."""
        self._histories.purge(log)

    def count(self) -> None:
        """Number a commit that leaves no recent event behind."""
        self.arrivals += 1
        self._db.execute(self._sql["count_arrivals"], {"arrivals": self.arrivals})
