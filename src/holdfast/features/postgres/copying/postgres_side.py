"""A Postgres store as the source or the target of a copy."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import asyncpg
from typing_extensions import override

from holdfast.config.settings import Settings
from holdfast.features.postgres.backend import object_store
from holdfast.features.postgres.blobs import PostgresBlobs, pieces_of
from holdfast.features.postgres.connection import Database, DatabaseAddress, migrate, named
from holdfast.features.postgres.copying.copy import (
    BOOLEANS,
    ROWS_AT_ONCE,
    TABLES,
    CopiedLog,
    CopyRefused,
    CopySource,
    CopyTarget,
    Row,
    copy,
    order_of,
    plain,
)
from holdfast.features.postgres.copying.sqlite_side import SqliteSource, SqliteTarget
from holdfast.features.postgres.event_types import EventTypes
from holdfast.features.postgres.objects import BlobBucket
from holdfast.features.postgres.queries import migrations, queries
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.features.postgres.words import vectors
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.journal.sqlite.integrity import Checked

_log = logging.getLogger(__name__)
_connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types
_FILLED = ("sessions", "notes", "once", "usage_days", "blobs")
_TEXT = """
INSERT INTO texts (session, seq, part, parts, text, words) VALUES ($1, $2, $3, $4, $5, $6::text::tsvector)
ON CONFLICT (session, seq, part) DO UPDATE SET text = excluded.text, words = excluded.words
"""


class PostgresSource(CopySource):
    """A database that no server uses now, and the bucket with its large blobs, if there is one."""

    isolation = "repeatable_read"

    def __init__(self, connection: Any, blobs: PostgresBlobs) -> None:
        self._connection = connection
        self._blobs = blobs
        self._transaction = connection.transaction(isolation=self.isolation)

    @classmethod
    async def open(cls, dsn: str, objects: BlobBucket | None = None) -> Self:
        """Connect; raises CopyRefused if servers use the database, and JournalError if there is none."""
        tuning = PostgresTuning()
        database = Database(dsn, tuning)
        await cls.prepare(database)
        try:
            connection = await _connect(**await DatabaseAddress.parse(dsn).arguments(), timeout=10.0)
        except Exception as error:
            raise named(error) from error
        side = cls(connection, PostgresBlobs(database, objects=objects, types=EventTypes(), tuning=tuning))
        try:
            await side.begin()
        except BaseException:
            await side.close()
            raise
        return side

    @classmethod
    async def prepare(cls, database: Database) -> None:
        """Bring the schema up to date."""
        preparing = await database.connect("copy")
        try:
            await migrate(preparing)
        finally:
            preparing.terminate()

    async def begin(self) -> None:
        """Begin the one transaction of the copy, in which nothing changes; raises CopyRefused."""
        await self._transaction.start()
        await self.check()
        if unreadable := await self._blobs.unreadable():
            raise CopyRefused(f"{unreadable}, and copy again")

    async def check(self) -> None:
        """Raise CopyRefused if the database can't be copied now."""
        nodes = await self._connection.fetch("SELECT name FROM nodes WHERE expires_at > clock_timestamp()")
        if nodes:
            names = ", ".join(sorted(row["name"] for row in nodes))
            raise CopyRefused(f"the database is in use by {names}; stop these servers first")

    async def close(self) -> None:
        """End the connections; what isn't finished is gone."""
        self._connection.terminate()
        await self._blobs.close()

    @override
    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        columns = ", ".join(TABLES[table])
        cursor = await self._connection.cursor(
            f"SELECT {columns} FROM {table} ORDER BY {order_of(table)}"  # noqa: S608  # names of ours
        )
        while rows := await cursor.fetch(ROWS_AT_ONCE):
            yield plain(table, rows)

    @override
    async def log(self, key: int, session_id: str, *, after: int) -> Sequence[Record]:
        found = await self._connection.fetch(
            "SELECT seq, crc, body FROM events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            key,
            after,
            ROWS_AT_ONCE,
        )
        return [Record.verified(session_id, row["seq"], crc=row["crc"], body=row["body"]) for row in found]

    @override
    async def blob_names(self) -> Sequence[str]:
        return [row["name"] for row in await self._connection.fetch("SELECT name FROM blobs ORDER BY name")]

    @override
    async def blob(self, name: str) -> bytes | None:
        try:
            return await self._blobs.get(name, self._named_rows)
        except StoreDamaged as damage:
            _log.warning("left a blob out of the copy: %s", damage)
            return None

    async def _named_rows(self, name: str, /, **bindings: Any) -> list[Any]:
        query = queries()[name]
        return await self._connection.fetch(query.sql, *query.values(bindings))


class LiveSource(PostgresSource):
    """A database that servers may be using: all of it as of one moment. Nothing is written to it."""

    @classmethod
    @override
    async def prepare(cls, database: Database) -> None:
        """Leave the schema to the servers."""

    @override
    async def check(self) -> None:
        if not await self._connection.fetchval("SELECT to_regclass('store') IS NOT NULL"):
            raise CopyRefused("there is no store in the database")
        version = await self._connection.fetchval("SELECT version FROM store")
        if version > migrations()[-1].number:
            raise CopyRefused(
                "the database belongs to a newer Holdfast: use the version that the servers run"
            )


class PostgresTarget(PostgresSource, CopyTarget):
    """An empty database; everything is written in one transaction, so a copy that fails leaves nothing.

    Objects of a copy that fails are deleted by the next server that uses the database, a day later.
    """

    isolation = "read_committed"  # to see which objects are stored; nobody else writes

    @override
    async def begin(self) -> None:
        await super().begin()
        for table in _FILLED:
            if await self._connection.fetchval(f"SELECT EXISTS (SELECT FROM {table})"):  # noqa: S608  # ours
                raise CopyRefused("the database already holds a store; name an empty one")

    @override
    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        records = [
            tuple(
                bool(value) if name in BOOLEANS else value for name, value in zip(columns, row, strict=True)
            )
            for row in rows
        ]
        await self._connection.copy_records_to_table(table, records=records, columns=columns)

    @override
    async def put_log(self, log: CopiedLog) -> None:
        await self._connection.copy_records_to_table(
            "events",
            records=[(log.key, record.seq, crc32(record.body), record.body) for record in log.records],
            columns=("session", "seq", "crc", "body"),
        )
        texts: list[Row] = []
        for seq, text in log.texts.items():
            parts = vectors(text) if seq else vectors(text)[:1]
            clean = text.replace("\x00", "\ufffd")
            texts += [
                (log.key, seq, nth, len(parts), clean if nth == 0 else "", words)
                for nth, words in enumerate(parts)
            ]
        await self._connection.executemany(_TEXT, texts)

    @override
    async def put_blob(self, name: str, data: bytes) -> None:
        if self._blobs.wants_object(data):
            key = await self._blobs.upload(name, data)
            await self._connection.execute(
                "SELECT put_blob_object($1, $2, $3, 0, 0, '')", key, name, len(data)
            )
            return
        await self._connection.execute(
            "INSERT INTO blobs (name, bytes, touched_at, promised, offered) VALUES ($1, $2, now(), 0, 0)",
            name,
            len(data),
        )
        await self._connection.copy_records_to_table(
            "blob_pieces",
            records=[(name, nth, piece) for nth, piece in enumerate(pieces_of(data), 1)],
            columns=("name", "nth", "data"),
        )

    @override
    async def finish(self) -> None:
        # A session that is created later must not get the key of one that was copied.
        await self._connection.execute(
            "SELECT setval(pg_get_serial_sequence('sessions', 'key'), max(key)) FROM sessions "
            "HAVING count(*) > 0"
        )
        await self._transaction.commit()
        self._transaction = self._connection.transaction(isolation="repeatable_read")
        await self._transaction.start()


async def back_up(settings: Settings, folder: Path) -> None:
    """Copy a database, which servers may be using, to an SQLite store in a folder."""
    source = await _live(settings)
    try:
        await _copy_into(await SqliteTarget.open(folder), source)
    finally:
        await source.close()


async def _live(settings: Settings) -> LiveSource:
    server = settings.server
    return await LiveSource.open(str(server.store_direct or server.store), object_store(server.blob_store))


async def restore(settings: Settings, folder: Path) -> None:
    """Fill an empty database, which no server uses, from the SQLite store in a folder."""
    server = settings.server
    dsn = str(server.store_direct or server.store)
    source = await SqliteSource.open(folder)
    try:
        target = await PostgresTarget.open(dsn, object_store(server.blob_store))
        try:
            await copy(source, target, on_progress=_in_silence)
        finally:
            await target.close()
    finally:
        await source.close()


async def _copy_into(target: SqliteTarget, source: PostgresSource) -> None:
    try:
        await copy(source, target, on_progress=_in_silence)
    except BaseException:
        await target.close()
        raise
    await target.move()


def _in_silence(done: int, total: int) -> None:
    del done, total


async def verify(settings: Settings, fault_of: Callable[[Record], str]) -> Checked:
    """Read a database, which servers may be using: the same checks through the reader of copies."""
    source = await _live(settings)
    checked = Checked()
    try:
        spans = {(row[0], row[1]): row[2] async for rows in source.rows("spans") for row in rows}
        sessions = [(row[0], row[1]) async for rows in source.rows("sessions") for row in rows]
        for key, session_id in sessions:
            try:
                await _verify_log(source, key, session_id, spans=spans, checked=checked, fault_of=fault_of)
            except StoreDamaged as error:
                checked.faults.append(str(error))
        named = {row[0] async for rows in source.rows("blob_refs") for row in rows}
        for name in sorted(named):
            checked.blobs += 1
            if await source.blob(name) is None:
                checked.fault(f"blob {name}", "it is missing")
    finally:
        await source.close()
    return checked


async def _verify_log(
    source: PostgresSource,
    key: int,
    session_id: str,
    *,
    spans: Mapping[tuple[int, int], int],
    checked: Checked,
    fault_of: Callable[[Record], str],
) -> None:
    """Check one log; raises StoreDamaged at an event that was changed."""
    after, expected = 0, 1
    while records := await source.log(key, session_id, after=after):
        for record in records:
            place = f"session {session_id} seq {record.seq}"
            if record.seq != expected:
                checked.fault(place, f"seq {expected} is missing before it")
            checked.fault(place, fault_of(record))
            expected = record.seq + spans.get((key, record.seq), 1)
            checked.events += 1
        after = records[-1].seq
