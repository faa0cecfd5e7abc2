"""Small wrong ways to share a database, each breaking one promise; the check of that promise must notice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.interfaces.journal import Record
from holdfast.journal.postgres.connection import Connection, Database
from holdfast.journal.postgres.queries import Query
from holdfast.journal.postgres.store import PostgresStore
from journal.node_checks import (
    NodeCheck,
    check_an_input_after_a_purge_leaves_nothing,
    check_foreign_records_come_before_own_later_ones,
    check_no_statement_outlives_a_take_over,
    check_nothing_is_appended_after_a_release,
    check_raising_the_writer_waits_for_what_is_in_flight,
)


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


class ShowsItsOwnFirst(PostgresStore):
    """Gives followers what is in memory, whatever comes before it."""

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        held = [record for record in self._tails.of(session_id).records if record.seq > after]
        return held or await super()._read_on(session_id, after, limit)


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
        "own records are shown before foreign ones",
        check_foreign_records_come_before_own_later_ones,
        kind=ShowsItsOwnFirst,
    ),
]
