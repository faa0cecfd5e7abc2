"""An SQLite store as the source or the target of a copy."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import apsw
from typing_extensions import override

from holdfast.features.postgres.copying.copy import (
    ROWS_AT_ONCE,
    TABLES,
    CopiedLog,
    CopyRefused,
    CopySource,
    CopyTarget,
    Row,
    order_of,
    plain,
)
from holdfast.interfaces.journal import Record
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.sqlite.connection import open_for_reading
from holdfast.journal.sqlite.queries import queries
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.journal.sqlite.transaction import SEARCH_SHIFT
from holdfast.redaction import NO_SECRETS

FILE = "holdfast.db"
_UNFINISHED = ".copying"


class SqliteSource(CopySource):
    """The store in a data directory that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = SqliteReader(folder / FILE)
        self._blobs = FileBlobs(folder / "blobs")

    @classmethod
    async def open(cls, folder: Path) -> "SqliteSource":
        """Open the store; raises CopyRefused if there is none. Its schema is brought up to date first."""
        if not await asyncio.to_thread((folder / FILE).exists):
            raise CopyRefused(f"there is no store in {folder}")
        await (await SqliteStore.open(folder / FILE, NO_SECRETS)).close()
        return cls(folder)

    async def close(self) -> None:
        """Close its files."""
        await self._reader.close()

    @override
    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        connection = open_for_reading(self._folder / FILE, vfs=None)
        try:
            found = connection.execute(
                f"SELECT {', '.join(TABLES[table])} FROM {table} ORDER BY {order_of(table)}"  # noqa: S608  # ours
            )
            while rows := list(islice(cast("Iterator[Sequence[Any]]", found), ROWS_AT_ONCE)):
                yield plain(table, rows)
        finally:
            connection.close()

    @override
    async def log(self, key: int, session_id: str, *, after: int) -> Sequence[Record]:
        return await self._reader.read(session_id, after=after, limit=ROWS_AT_ONCE)

    @override
    async def blob_names(self) -> Sequence[str]:
        return await asyncio.to_thread(_names_in, self._folder / "blobs")

    @override
    async def blob(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self._blobs.get, name)


def _names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("??/*") if len(file.name) == len("0" * 64))


class SqliteTarget(SqliteSource, CopyTarget):
    """A new store in a data directory; until it is moved there, a second try replaces it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / _UNFINISHED)
        self._final = folder
        self._db = apsw.Connection(os.fspath(self._folder / FILE))
        self._db.execute("BEGIN IMMEDIATE")

    @classmethod
    @override
    async def open(cls, folder: Path) -> "SqliteTarget":
        """Begin a new store; raises CopyRefused if there is one already."""
        if await asyncio.to_thread((folder / FILE).exists):
            raise CopyRefused(f"{folder} already has a store; name another directory")
        unfinished = folder / _UNFINISHED
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
        await asyncio.to_thread(unfinished.mkdir, mode=0o700, parents=True)
        await (await SqliteStore.open(unfinished / FILE, NO_SECRETS)).close()
        return cls(folder)

    @override
    async def close(self) -> None:
        self._db.close()
        await super().close()

    @override
    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        marks = ", ".join("?" for _ in columns)
        self._db.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})",  # noqa: S608  # names of ours
            rows,
        )

    @override
    async def put_log(self, log: CopiedLog) -> None:
        events = [(log.key, record.seq, crc32(record.body), record.body) for record in log.records]
        self._db.executemany("INSERT INTO events (session, seq, crc, body) VALUES (?, ?, ?, ?)", events)
        texts = [(log.key << SEARCH_SHIFT | seq, text) for seq, text in log.texts.items()]
        self._db.executemany(queries()["delete_search_text"], [(rowid,) for rowid, _ in texts])
        self._db.executemany(queries()["insert_search_text"], texts)

    @override
    async def put_blob(self, name: str, data: bytes) -> None:
        await asyncio.to_thread(self._blobs.put, data)

    @override
    async def finish(self) -> None:
        self._db.execute("COMMIT")
        await asyncio.to_thread(self._db.close)

    async def move(self) -> None:
        """Put the finished store in its place."""
        await self.close()
        await asyncio.to_thread(_move_all, self._folder, self._final)


def _move_all(unfinished: Path, final: Path) -> None:
    for entry in sorted(unfinished.iterdir(), key=lambda one: one.name == FILE):  # the store itself last
        entry.rename(final / entry.name)
    unfinished.rmdir()
