"""Brings the database's schema up to date, and keeps programs out that are too old for it."""

import asyncpg

from holdfast.features.postgres.connection import Connection
from holdfast.features.postgres.queries import Query, migrations
from holdfast.interfaces.journal import StoreReadOnly

# Two nodes that start at once take turns. Any number will do, as long as it never changes.
MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(72104653)"
# A program whose newest migration is older than this can't work with the schema that this one leaves.
LOWEST_THAT_MAY_START = 1


async def migrate(connection: Connection, *, step_s: float | None = None) -> None:
    """Take the steps that are missing; raises StoreReadOnly if the schema is too new for this program.

    Each step, and waiting for another node to take them, may take `step_s`, by default as long as any query.
    """
    newest = migrations()[-1].number
    await connection.run("BEGIN")
    try:
        await connection.run(MIGRATION_LOCK, timeout_s=step_s)
        version, lowest = await _numbers(connection)
        if newest < lowest:
            raise StoreReadOnly(
                f"the database belongs to a newer Holdfast (its schema is {version}, and programs older than "
                f"{lowest} must not use it; this one knows {newest}): update Holdfast on this machine"
            )
        for step in migrations()[version:]:
            await connection.run(step.sql, timeout_s=step_s)
        if version < newest:
            record = Query(
                "UPDATE store SET version = $1, lowest = greatest(lowest, $2)", ("version", "lowest")
            )
            await connection.execute(record, {"version": newest, "lowest": LOWEST_THAT_MAY_START})
        await connection.run("COMMIT")
    except BaseException:
        connection.terminate()
        raise


async def _numbers(connection: Connection) -> tuple[int, int]:
    try:
        await connection.run("SAVEPOINT numbers")
        (row,) = await connection.fetch("SELECT version, lowest FROM store")
    except asyncpg.UndefinedTableError:
        await connection.run("ROLLBACK TO SAVEPOINT numbers")
        return 0, 0
    return row[0], row[1]
