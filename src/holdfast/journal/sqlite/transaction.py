"""Writes one commit: events, and the rows, search text and keys that go with them.

Many appends share one transaction. An append that is declined or refused has written nothing, so it doesn't
affect the others. Everything here runs on the writer's thread.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import apsw
import msgspec
from msgspec.structs import asdict

from holdfast.events import Event, RunQueued, SessionCreated, SessionForked
from holdfast.folds import rows
from holdfast.folds.usage import UsageRow
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    FenceLost,
    IdempotencyKey,
    IfSessionNew,
    KeyConflict,
    Replayed,
)
from holdfast.journal.append_rules import LogHead, counts_usage, index_event, keep_order, refusal, time_in
from holdfast.journal.sqlite.jobs import AppendJob
from holdfast.journal.sqlite.queries import queries
from holdfast.journal.sqlite.recent_events import APPEND_BYTES_MAX, RecentEvents
from holdfast.journal.sqlite.tuning import Tuning
from holdfast.journal.thinning import Joining
from holdfast.values import LogEnd

if TYPE_CHECKING:
    from holdfast.journal.sqlite.wiping import WipingState

HEADS_MAX = 4_096
Row = TypeVar("Row", bound=msgspec.Struct)
SEARCH_SHIFT = 32  # the rowid of a search text is session key << 32 | seq


class Transaction:
    """Gathers the writes of one commit; the heads of logs are cached from commit to commit."""

    def __init__(self, connection: apsw.Connection, tuning: Tuning | None = None) -> None:
        self._db = connection
        self._sql = queries()
        self._heads: OrderedDict[str, LogHead] = OrderedDict()
        self._open_runs: OrderedDict[str, rows.RunRow] = OrderedDict()  # written or only gathered
        self._recent = RecentEvents(connection, self._sql, tuning or Tuning())
        self._sessions: dict[str, LogHead] = {}
        self._runs: dict[str, rows.RunRow] = {}
        self._new_runs: set[str] = set()  # ids that no run had before this commit
        self._asks: dict[str, rows.AskRow] = {}
        self._texts: dict[int, str] = {}
        self._blobs: list[tuple[str, int]] = []
        self._usage: dict[tuple[int, int, str, str], UsageRow] = {}  # session, day, key, target
        self._fence = 0
        self.version: int | None = None  # the file's data_version when it was last read
        self.saw_foreign_write = False
        self.is_dirty = False
        self.has_purged = False
        self.wiping: WipingState = "done"  # how far purged text has been overwritten
        self.blobs_named: list[str] = []
        self.blobs_purged: list[str] = []

    def begin(self) -> None:
        """Take the write lock and read who owns the store."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._db.execute("BEGIN IMMEDIATE")
        (version,) = self._the_one("data_version")
        if version != self.version:
            # Another process has written since, so the cached values may be wrong.
            self._forget()
            self._fence, arrivals, recent = self._the_one("state")
            self._recent.found(arrivals, recent)
            self.version = version
            self.saw_foreign_write = True
        self.is_dirty = self.has_purged = False
        self.blobs_named, self.blobs_purged = [], []

    def has_foreign_write(self) -> bool:
        """Whether another process has written since the last transaction began."""
        (version,) = self._the_one("data_version")
        return version != self.version

    def forgo(self) -> None:
        """End a transaction in which nothing was written."""
        self._db.execute("ROLLBACK")

    def roll_back(self) -> None:
        """Undo everything since `begin`, in the file and in memory."""
        self.version = None
        self._forget()
        self._clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _forget(self) -> None:
        self._heads.clear()
        self._open_runs.clear()

    def raise_fence(self) -> int:
        """Become the owner, and move the events that the last owner left into their logs."""
        (self._fence,) = self._the_one("raise_fence")
        self._recent.move()
        return self._fence

    @property
    def arrivals(self) -> int:
        """How much was ever written to the store, as counted by `RecentEvents`."""
        return self._recent.arrivals

    def count(self) -> None:
        """Make an otherwise empty commit count."""
        self._recent.count()

    def append(self, work: AppendJob) -> Appended | Declined | Replayed | KeyConflict:
        """Write the events, or return why not; raises JournalError before anything is written."""
        if work.fence is not None and work.fence.number != self._fence:
            raise FenceLost(
                f"the store was opened by another process (its fence is {self._fence}, ours was "
                f"{work.fence.number}): this process may no longer write for its runs"
            )
        if work.idempotency_key is not None and (known := self._used(work.idempotency_key, work)) is not None:
            return known
        first = work.records[0].event
        head = self._begun(work, first)
        if head is None:
            head = self._head(work.session_id)
            declined = refusal(first, head, session_id=work.session_id, when=work.when, known=self)
            if declined is not None:
                return declined
            head = head or self._create(work.session_id)
            assert head is not None, "the file has no such session"
        head.last_ms = keep_order(work.records, head.last_ms)
        seq, key = head.last_seq, head.key
        add = self._recent.add if work.bytes <= APPEND_BYTES_MAX else self._recent.add_large
        quiet = rows.QUIET
        runs: list[rows.RunRow] | None = None
        counts = work.fence is not None or counts_usage(one.event for one in work.records)
        for record in work.records:
            record.seq = seq = seq + 1
            add(key, record)
            event = record.event
            if type(event) not in quiet:
                runs = runs or []
                self._index(head, seq, event=event, runs=runs, counts=counts)
        if runs is not None:
            work.rows = (head.listed(), runs)
        first_seq, head.last_seq = head.last_seq + 1, seq
        if work.idempotency_key is not None:
            self._db.execute(self._sql["expire_once"], {"now_ms": first.at_ms})
            self._db.execute(self._sql["put_once"], asdict(work.idempotency_key) | {"session": head.key})
        self.is_dirty = True
        return Appended(first_seq, seq)

    def flush(self) -> None:
        """Write what was gathered so far; the caller commits."""
        self._recent.flush()
        used = [asdict(row) | {"session": key} for (key, *_), row in self._usage.items()]
        gathered: tuple[tuple[str, Sequence[Any]], ...] = (
            ("update_session", [asdict(head.row) for head in self._sessions.values()]),
            ("put_run", [asdict(row) for row in self._runs.values()]),
            ("put_ask", [asdict(row) for row in self._asks.values()]),
            ("put_blob_ref", self._blobs),
            ("add_usage", used),
            ("add_session_usage", used),
            ("delete_search_text", [(rowid,) for rowid in self._texts if not rowid & 0xFFFFFFFF]),
            ("insert_search_text", list(self._texts.items())),
        )
        for name, bindings in gathered:
            if bindings:
                self._db.executemany(self._sql[name], bindings)
        self._clear()

    def _clear(self) -> None:
        self._recent.clear()
        for gathered in (
            self._sessions,
            self._runs,
            self._new_runs,
            self._asks,
            self._texts,
            self._blobs,
            self._usage,
        ):
            gathered.clear()
        for remembered in (self._heads, self._open_runs):
            while len(remembered) > HEADS_MAX:
                remembered.popitem(last=False)

    def purge(self, session_id: str, only: LogEnd | None) -> bool:
        """Delete the session's rows and note which blobs only it names; return whether it is gone."""
        head = self._head(session_id)
        if head is None:
            return True
        if only is not None and only != (head.row.epoch, head.last_seq):
            return False
        self.flush()
        bindings = {
            "session": head.key,
            "notes_from": f"session/{session_id}/",
            "notes_to": f"session/{session_id}0",
        }
        self.blobs_purged += [
            row[0] for row in self._db.execute(self._sql["blobs_of_session_alone"], bindings)
        ]
        self._recent.purge_histories(head.key)
        for statement in self._sql["purge"].split(";"):
            self._db.execute(statement, bindings)
        self._forget()
        self.is_dirty = self.has_purged = True
        self.wiping = "going"
        return True

    def thin(self, joining: Joining) -> int:
        """Join some deltas of an old run; return how many records this removed."""
        self.is_dirty = True
        if joining.stretches:
            self._recent.move_log(joining.key, max(one.last for one in joining.stretches))
        return joining.write(self._db, self._sql)

    def is_blob_named(self, name: str) -> bool:
        """Whether some event names the blob."""
        found = self._one("blob_is_named", {"blob": name})
        return found is not None and bool(found[0])

    def execute(self, name: str, bindings: Mapping[str, Any]) -> int:
        """Run a single named query (for notes); returns how many rows it returned."""
        self.is_dirty = True
        return len(self._db.execute(self._sql[name], bindings).fetchall())

    def _one(self, name: str, bindings: dict[str, Any] | None = None) -> tuple[Any, ...] | None:
        return self._db.execute(self._sql[name], bindings).fetchone()

    def _the_one(self, name: str) -> tuple[int, ...]:
        # Fetched completely: an unfinished statement would block the commit.
        (found,) = self._db.execute(self._sql[name]).fetchall()
        return cast("tuple[int, ...]", found)

    def _head(self, session_id: str) -> LogHead | None:
        head = self._heads.get(session_id)
        if head is None:
            found = self._one("head", {"session_id": session_id})
            if found is None:
                return None
            key, last_seq, open_runs, open_asks, begun_runs, *columns = found
            row = row_of(rows.SessionRow, columns)
            newest = self._one("newest", {"session": key, "seq": last_seq})
            last_ms = time_in(newest[0]) if newest is not None else 0
            head = LogHead(key, row, last_seq, open_runs, open_asks, begun_runs, last_ms)
            self._heads[session_id] = head
        self._heads.move_to_end(session_id)
        return head

    def _begun(self, work: AppendJob, first: Event) -> LogHead | None:
        """The head of a session that the append may only create; None if it exists, and for other appends.

        The insert finds out whether the session exists, so that a new one costs no read. It has no runs yet,
        unless it is a fork, which has those of another session.
        """
        if not work.when or not isinstance(first, SessionCreated) or work.session_id in self._heads:
            return None
        if any(type(condition) is not IfSessionNew for condition in work.when):
            return None
        head = self._create(work.session_id)
        events = [record.event for record in work.records]
        if head is not None and not any(isinstance(event, SessionForked) for event in events):
            self._new_runs.update(event.run_id for event in events if isinstance(event, RunQueued))
        return head

    def _create(self, session_id: str) -> LogHead | None:
        """The head of a new session; None if there is one with this id."""
        row = rows.SessionRow(session_id=session_id)
        for (key,) in self._db.execute(self._sql["insert_session"], asdict(row)):
            self._heads[session_id] = LogHead(key, row)
        return self._heads.get(session_id)

    def _used(self, idempotency_key: IdempotencyKey, work: AppendJob) -> Replayed | KeyConflict | None:
        found = self._one("once", {"key": idempotency_key.key, "now_ms": work.records[0].event.at_ms})
        if found is None:
            return None
        digest, answer = found
        return Replayed(answer) if digest == idempotency_key.digest else KeyConflict()

    def known_run(self, run_id: str) -> rows.RunRow | None:
        """The row of a run, written or gathered."""
        known = self._runs.get(run_id) or self._open_runs.get(run_id)
        if known is not None or run_id in self._new_runs:
            return known
        found = self._one("run", {"run_id": run_id})
        row = row_of(rows.RunRow, found) if found else None
        if row is not None and row.status != "ended":
            self._open_runs[run_id] = row
        return row

    def known_ask(self, ask_id: str) -> rows.AskRow | None:
        """The row of an ask, written or gathered."""
        if ask_id in self._asks:
            return self._asks[ask_id]
        found = self._one("ask", {"ask_id": ask_id})
        return row_of(rows.AskRow, found) if found else None

    def _index(self, head: LogHead, seq: int, *, event: Event, runs: list[rows.RunRow], counts: bool) -> None:
        changes = index_event(head, seq, event=event, known=self, counts=counts)
        if changes.session is not None:
            self._sessions[changes.session.session_id] = head
        if changes.run is not None:
            self._put_run(changes.run)
            runs.append(changes.run)
        if changes.usage:
            self._add_usage(head, changes.usage)
        if changes.ask is not None:
            self._asks[changes.ask.ask_id] = changes.ask
        if changes.text is not None:
            self._texts[head.key << SEARCH_SHIFT | changes.text.seq] = changes.text.text
        if changes.blobs:
            self._blobs += [(blob, head.key) for blob in changes.blobs]
            self.blobs_named += changes.blobs

    def _add_usage(self, head: LogHead, used: Sequence[UsageRow]) -> None:
        for row in used:
            place = head.key, row.day, row.api_key, row.target
            known = self._usage.get(place)
            self._usage[place] = row if known is None else known.plus(row)

    def _put_run(self, run: rows.RunRow) -> None:
        self._runs[run.run_id] = run
        if run.status == "ended":
            self._open_runs.pop(run.run_id, None)
        else:
            self._open_runs[run.run_id] = run


def row_of(kind: type[Row], values: Sequence[Any]) -> Row:
    """The row with these values, which are in the order of its fields."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, values, strict=True)), kind, strict=False)
