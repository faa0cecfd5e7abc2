"""A node's knowledge of the ends of logs.

It may be out of date, because other nodes append, too. That does no harm to a write: a row changes only
together with an appended event, so an append that goes by an outdated head finds its seq taken. Only fresh
knowledge decides that something is not written.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from holdfast.features.postgres.connection import Connection
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.words import clean
from holdfast.folds import rows
from holdfast.interfaces.journal import IdempotencyKey, IfAskOpen, IfRunKnown
from holdfast.journal.append_rules import LogHead, time_in

HEADS_MAX = 4_096
_SESSION_FIELDS = rows.SessionRow.__struct_fields__


class KnownHead(LogHead):
    """The end of a log, with its owner and the rows of its open runs."""

    owner: int | None = None
    fence: int = 0
    home: str = ""
    runs: dict[str, rows.RunRow] = field(default_factory=dict[str, rows.RunRow])


class Lookups(Struct):
    """The rows by id that one group of appends needs; what isn't there doesn't exist."""

    # The heads that were just read, None for a session that doesn't exist. A notice may make the node forget
    # one before the append is planned, and what it forgot must not look as if it didn't exist.
    fresh: dict[str, KnownHead | None] = field(default_factory=dict[str, KnownHead | None])
    runs: dict[str, rows.RunRow] = field(default_factory=dict[str, rows.RunRow])
    asks: dict[str, rows.AskRow] = field(default_factory=dict[str, rows.AskRow])
    keys: dict[str, IdempotencyKey] = field(default_factory=dict[str, IdempotencyKey])


class Heads:
    """The ends of the logs that were written to most recently."""

    def __init__(self) -> None:
        self._heads: OrderedDict[str, KnownHead] = OrderedDict()

    def get(self, session_id: str) -> KnownHead | None:
        """The head of a log, if it is known."""
        return self._heads.get(session_id)

    def get_all(self, session_ids: Iterable[str]) -> Iterable[KnownHead | None]:
        """The heads of these logs, each if it is known."""
        return map(self._heads.get, session_ids)

    def among(self, session_ids: Iterable[object]) -> set[str]:
        """Those of these logs whose heads are known."""
        return self._heads.keys() & session_ids

    def used(self, session_ids: Iterable[str]) -> None:
        """Keep these heads, which are known, longer than those that were used before."""
        for _ in map(self._heads.move_to_end, session_ids):
            pass

    def put(self, head: KnownHead) -> None:
        """Keep a head."""
        self._heads[head.row.session_id] = head
        self._heads.move_to_end(head.row.session_id)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Drop what is out of date."""
        for session_id in session_ids:
            self._heads.pop(session_id, None)

    def forget_older(self, session_id: str, seq: int) -> None:
        """Drop a head if the log is known to go further."""
        head = self._heads.get(session_id)
        if head is not None and head.last_seq < seq:
            del self._heads[session_id]

    def clear(self) -> None:
        """Drop everything."""
        self._heads.clear()

    def trim(self) -> None:
        """Drop the oldest heads beyond the limit."""
        while len(self._heads) > HEADS_MAX:
            self._heads.popitem(last=False)

    async def look(self, connection: Connection, jobs: Sequence[PendingAppend]) -> Lookups:
        """Read what is missing for these appends.

        Heads come first: if a row changes after that, the append that goes by it finds its seq taken.
        """
        found = Lookups()
        jobs = [job for job in jobs if not job.is_quiet or job.session_id not in self._heads]
        if not jobs:
            return found
        wanted = {job.session_id for job in jobs}
        if missing := [session_id for session_id in wanted if session_id not in self._heads]:
            found.fresh.update(dict.fromkeys(missing))
            for row in await connection.rows("heads", session_ids=missing):
                head = found.fresh[row["session_id"]] = _head(row)
                self.put(head)
        await self._look_up_rows(connection, jobs, found)
        if keys := [clean(job.idempotency_key.key) for job in jobs if job.idempotency_key is not None]:
            for row in await connection.rows("once_by_key", keys=keys):
                found.keys[row["key"]] = IdempotencyKey(**dict(row))
        return found

    async def _look_up_rows(
        self, connection: Connection, jobs: Sequence[PendingAppend], found: Lookups
    ) -> None:
        run_ids: set[str] = set()
        ask_ids: set[str] = set()
        for job in jobs:
            head = self._heads.get(job.session_id)
            known = head.runs if head is not None else {}
            for record in job.records:
                event = record.event
                if type(event) not in rows.QUIET:
                    run_ids.update({clean(rows.run_of(event))} - known.keys())
                    ask_ids.add(clean(rows.ask_of(event)))
            run_ids.update(
                {clean(one.run_id) for one in job.when if isinstance(one, IfRunKnown)} - known.keys()
            )
            ask_ids.update(clean(one.ask_id) for one in job.when if isinstance(one, IfAskOpen))
        run_ids.discard("")
        ask_ids.discard("")
        if run_ids:
            for row in await connection.rows("runs_by_id", run_ids=list(run_ids)):
                found.runs[row["run_id"]] = rows.RunRow(**dict(row))
        if ask_ids:
            for row in await connection.rows("asks_by_id", ask_ids=list(ask_ids)):
                found.asks[row["ask_id"]] = rows.AskRow(**dict(row))


def _head(row: Any) -> KnownHead:
    return KnownHead(
        key=row["key"],
        row=rows.SessionRow(**{name: row[name] for name in _SESSION_FIELDS}),
        last_seq=row["last_seq"],
        open_runs=row["open_runs"],
        open_asks=row["open_asks"],
        begun_runs=row["begun_runs"],
        last_ms=time_in(row["newest"] or b""),
        owner=row["owner"],
        fence=row["fence"],
        home=row["home"],
    )
