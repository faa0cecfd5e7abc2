"""The store as checks of the doctor read it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.config.settings import Settings
from holdfast.host.stores import require_postgres
from holdfast.journal.sqlite.reader import SqliteReader

if TYPE_CHECKING:  # an optional dependency
    from holdfast.journal.postgres.reader import PostgresReader

_HAS_LOGS = "SELECT to_regclass('events') IS NOT NULL"


@asynccontextmanager
async def store_reader(settings: Settings) -> AsyncGenerator["SqliteReader | PostgresReader | None"]:
    """The store, to be read; None if there is none yet. Raises a JournalError."""
    if settings.server.store:
        async with _database(settings) as reader:
            yield reader
    elif await asyncio.to_thread(os.path.exists, settings.store_path):  # never raises
        reader = SqliteReader(settings.store_path)
        try:
            yield reader
        finally:
            await reader.close()
    else:
        yield None


@asynccontextmanager
async def _database(settings: Settings) -> AsyncGenerator["PostgresReader | None"]:
    require_postgres()
    from holdfast.journal.postgres.connection import Database, Pool
    from holdfast.journal.postgres.reader import PostgresReader
    from holdfast.journal.postgres.tuning import PostgresTuning

    pool = Pool(Database(str(settings.server.store), PostgresTuning()), "doctor", 1)
    reader = PostgresReader(pool)
    try:
        ((has_logs,),) = await pool.run(lambda connection: connection.fetch(_HAS_LOGS))
        yield reader if has_logs else None
    finally:
        await reader.close()
