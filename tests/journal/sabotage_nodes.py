"""Small wrong ways to share a database, each breaking one promise; the check of that promise must notice."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.events import Event
from holdfast.features.postgres.connection import Connection, Database
from holdfast.features.postgres.foreign import ForeignAppends
from holdfast.features.postgres.heads import Heads, Lookups
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.node import Lease
from holdfast.features.postgres.notices import AppendNotice, NoticeListener
from holdfast.features.postgres.plan import AppendPlan, DeltaPlan
from holdfast.features.postgres.queries import Query
from holdfast.interfaces.journal import Condition, Fence, IdempotencyKey, Record
from holdfast.interfaces.nodes import Node
from holdfast.journal.follow import Tails
from holdfast.redaction import Redactor
from journal.node_checks import (
    NodeCheck,
    check_a_delta_after_a_purge_leaves_nothing,
    check_a_frozen_node_holds_no_lock,
    check_a_late_notice_holds_up_no_stop,
    check_a_sweep_leaves_a_blob_that_is_being_named,
    check_an_input_after_a_purge_leaves_nothing,
    check_deltas_need_the_newest_fence,
    check_deltas_that_share_a_statement_leave_no_gap,
    check_foreign_records_come_before_own_later_ones,
    check_no_statement_outlives_a_take_over,
    check_nobody_is_buried_because_the_database_was_away,
    check_nobody_is_told_before_the_commit,
    check_nothing_is_appended_after_a_release,
    check_raising_the_writer_waits_for_what_is_in_flight,
)
from journal.notice_campaign import check_forged_notices_leave_runs_and_readers_alone
from stores import PostgresStore


class _NoFenceLock(Connection):
    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        loose = query.sql.replace("FOR KEY SHARE\n", "\n")
        return await super().execute(query._replace(sql=loose), bindings, timeout_s=timeout_s)


class _NoFenceLockDatabase(Database):
    connection_type = _NoFenceLock


class ReadsTheFenceWithoutLock(PostgresStore):
    """Looks at the node's row, which may be gone by the time the events are written."""

    database_type = _NoFenceLockDatabase


class _NoSessionLock(Connection):
    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        loose = query.sql.replace("FOR KEY SHARE OF sessions", "").replace("FOR NO KEY UPDATE", "")
        # The session's row isn't written either, because that would wait for the purge, too.
        loose = loose.replace("WHERE sessions.key = new.key", "WHERE false AND sessions.key = new.key")
        return await super().execute(query._replace(sql=loose), bindings, timeout_s=timeout_s)


class _NoSessionLockDatabase(Database):
    connection_type = _NoSessionLock


class AppendsWithoutLockingTheSession(PostgresStore):
    """Relies on the primary key alone, which doesn't decide between an append and a purge."""

    database_type = _NoSessionLockDatabase


class _AnyFence(Connection):
    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        loose = query.sql.replace("sum(fence)::bigint =", "sum(fence)::bigint >=")
        return await super().execute(query._replace(sql=loose), bindings, timeout_s=timeout_s)


class _AnyFenceDatabase(Database):
    connection_type = _AnyFence


class TrustsItsMemoryOfFences(PostgresStore):
    """Writes deltas of a session that was claimed anew meanwhile."""

    database_type = _AnyFenceDatabase


class _MovedHeads(Heads):
    async def look(self, connection: Connection, jobs: Sequence[PendingAppend]) -> Lookups:
        found = await super().look(connection, jobs)
        for head in found.fresh.values():
            if head is not None:
                head.last_seq += 1
        return found


class LeavesPlansBehind(PostgresStore):
    """Gives up a plan, and doesn't take back what it did to the heads."""

    def __init__(self, dsn: str, redactor: Redactor, **options: Any) -> None:
        super().__init__(dsn, redactor, **options)
        self._writer.heads = _MovedHeads()


class ShowsItsOwnFirst(PostgresStore):
    """Gives followers what is in memory, whatever comes before it."""

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        held = [record for record in self._tails.of(session_id).records if record.seq > after]
        return held or await super()._read_on(session_id, after, limit)


class _InTransaction(Connection):
    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        await self.run("BEGIN")
        count = await super().execute(query, bindings, timeout_s=timeout_s)
        for _ in range(1_000):  # frozen for a while
            await asyncio.sleep(0)
        await self.run("COMMIT")
        return count


class _InTransactionDatabase(Database):
    connection_type = _InTransaction


class AppendsInTransactions(PostgresStore):
    """Needs another message to the database before its locks are released."""

    database_type = _InTransactionDatabase


class TellsBeforeTheCommit(PostgresStore):
    """Sends the notice when the append is submitted."""

    def _submit(
        self,
        session_id: str,
        events: Sequence[Event],
        fence: Fence | None,
        when: Sequence[Condition],
        idempotency_key: IdempotencyKey | None,
    ) -> asyncio.Future[Any]:
        if (head := self._writer.heads.get(session_id)) is not None:
            self._notifier.grown({head.key: head.last_seq + len(events)}, loud=[head.key])
        return super()._submit(session_id, events, fence, when, idempotency_key)

    def _publish(self, plan: AppendPlan | DeltaPlan) -> None:
        for job, _ in plan.jobs:
            self._tails.publish(job.session_id, job.records)
        new = {key: seq for key, seq in plan.tops().items() if seq == 1}  # nobody could tell of these before
        self._notifier.grown(new, loud=new)


class _HastyLease(Lease):
    async def _look_at(self, others: Sequence[Node]) -> None:
        self._steady_since_s = -math.inf
        await super()._look_at(others)


class BuriesAtOnce(PostgresStore):
    """Takes every node for dead whose lease has run out, however long it was away itself."""

    lease_type = _HastyLease


class _NoBlobLock(Connection):
    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        loose = query.sql.replace("ORDER BY name FOR NO KEY UPDATE", "").replace(
            "WHERE blobs.name = new.name", "WHERE false AND blobs.name = new.name"
        )
        return await super().execute(query._replace(sql=loose), bindings, timeout_s=timeout_s)


class _NoBlobLockDatabase(Database):
    connection_type = _NoBlobLock


class NamesBlobsWithoutLockingThem(PostgresStore):
    """Leaves the rows of blobs alone, so a sweep doesn't see that one is about to be named."""

    database_type = _NoBlobLockDatabase


class _IgnoresGaps(Tails):
    def publish_deltas(self, grown: Iterable[tuple[str, Sequence[Record]]]) -> None:
        for session_id, records in grown:
            self.of(session_id).last = records[0].seq - 1
            super().publish_deltas([(session_id, records)])


class TakesGapsForDeltas(PostgresStore):
    """Leaves it to the notices to tell of what other nodes append, and those can be late."""

    def __init__(self, dsn: str, redactor: Redactor, **options: Any) -> None:
        super().__init__(dsn, redactor, **options)
        self._tails = _IgnoresGaps(self._read_on)


class _ExpectsNotices(NoticeListener):
    async def _has_gap(self, payload: str) -> bool:
        if payload:
            msgspec.json.decode(payload, type=AppendNotice)
        return await super()._has_gap(payload)


class FailsAtABadNotice(PostgresStore):
    """Takes for granted that notifications come from nodes."""

    listener_type = _ExpectsNotices


class _BelievesPurges(ForeignAppends):
    async def _end_replaced(self, notice: AppendNotice) -> None:
        for session_id in (*notice.purged, *notice.renewed):
            self.end(session_id)


class BelievesNotices(PostgresStore):
    """Ends the readers of a session because a notification says that it is gone."""

    foreign_type = _BelievesPurges


@dataclass(frozen=True)
class NodeSabotage:
    """A wrong store or a wrong schema, and the check that finds it out."""

    name: str
    check: NodeCheck
    kind: type[PostgresStore] = PostgresStore
    schema: str = ""


NODE_SABOTAGES = [
    NodeSabotage(
        "the fence is read without a lock",
        check_no_statement_outlives_a_take_over,
        kind=ReadsTheFenceWithoutLock,
    ),
    NodeSabotage(
        "the writer is outside the key",
        check_raising_the_writer_waits_for_what_is_in_flight,
        schema="ALTER TABLE nodes DROP CONSTRAINT nodes_pkey, ADD PRIMARY KEY (incarnation)",
    ),
    NodeSabotage(
        "a release leaves the owner",
        check_nothing_is_appended_after_a_release,
        schema="CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.owner := coalesce(NEW.owner, OLD.owner); RETURN NEW; END $$; "
        "CREATE TRIGGER keep BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION keep()",
    ),
    NodeSabotage(
        "an append doesn't lock its session",
        check_an_input_after_a_purge_leaves_nothing,
        kind=AppendsWithoutLockingTheSession,
    ),
    NodeSabotage(
        "a delta doesn't lock its session",
        check_a_delta_after_a_purge_leaves_nothing,
        kind=AppendsWithoutLockingTheSession,
    ),
    NodeSabotage(
        "the fences of deltas aren't compared",
        check_deltas_need_the_newest_fence,
        kind=TrustsItsMemoryOfFences,
    ),
    NodeSabotage(
        "a plan that was given up has moved the heads",
        check_deltas_that_share_a_statement_leave_no_gap,
        kind=LeavesPlansBehind,
    ),
    NodeSabotage(
        "own records are shown before foreign ones",
        check_foreign_records_come_before_own_later_ones,
        kind=ShowsItsOwnFirst,
    ),
    NodeSabotage(
        "an append is a transaction of several messages",
        check_a_frozen_node_holds_no_lock,
        kind=AppendsInTransactions,
    ),
    NodeSabotage(
        "others are told before the commit",
        check_nobody_is_told_before_the_commit,
        kind=TellsBeforeTheCommit,
    ),
    NodeSabotage(
        "an observer that was away itself takes over",
        check_nobody_is_buried_because_the_database_was_away,
        kind=BuriesAtOnce,
    ),
    NodeSabotage(
        "an append doesn't lock the blobs that it names",
        check_a_sweep_leaves_a_blob_that_is_being_named,
        kind=NamesBlobsWithoutLockingThem,
    ),
    NodeSabotage(
        "what is in a gap is taken for deltas",
        check_a_late_notice_holds_up_no_stop,
        kind=TakesGapsForDeltas,
    ),
    NodeSabotage(
        "a bad notification ends the listener",
        check_forged_notices_leave_runs_and_readers_alone,
        kind=FailsAtABadNotice,
    ),
    NodeSabotage(
        "a purge is believed",
        check_forged_notices_leave_runs_and_readers_alone,
        kind=BelievesNotices,
    ),
]
