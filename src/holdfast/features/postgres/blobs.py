"""Blobs in the database: as rows of at most 1 MiB or, if there is an object store, large ones as objects.

An object is known to the database before it is stored, and until it is deleted. So whatever crashes in
between, no blob refers to a missing object, and objects that hold no blob are found and deleted. If the
object store can't be used, a large blob is stored in rows: it needs the database in any case.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import TypeAlias

from asyncpg import RaiseError

from holdfast.features.postgres.connection import Connection, Database, Pool, Row
from holdfast.features.postgres.event_types import EventTypes
from holdfast.features.postgres.objects import BlobBucket
from holdfast.features.postgres.queries import queries
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.features.postgres.words import clean
from holdfast.interfaces.journal import JournalError, StoreDamaged, StoreUnreachable
from holdfast.racing import is_about

_log = logging.getLogger(__name__)

ReadRows: TypeAlias = Callable[..., Awaitable[list[Row]]]  # like `Pool.rows`

BLOB_PIECE_BYTES = 1024 * 1024
PROBE = "holdfast-probe"
UNCONFIGURED = "this server has no object store: set server.blob_store"


class PostgresBlobs:
    """The blobs of a store; `run` deletes objects that hold none, and tries an object store that failed."""

    def __init__(
        self, database: Database, *, objects: BlobBucket | None, types: EventTypes, tuning: PostgresTuning
    ) -> None:
        self._pool = Pool(database, "blobs", tuning.blob_connections)
        self._objects = objects
        self._types = types
        self._tuning = tuning
        self._wanted = asyncio.Event()
        self._is_tried = False  # whether the object store was asked for something since the start
        self._unreadable: JournalError | None = None

    @property
    def trouble(self) -> JournalError | None:
        """Why some blobs can't be read, or are in the database instead of the object store."""
        return self._unreadable if self._objects is None else self._objects.trouble

    async def put(self, data: bytes, *, promised: int = 0, offered: int = 0) -> str:
        """Store a blob and return its name; it is stored when this returns."""
        name = await _digest(data)
        counts: dict[str, object] = {
            "name": name,
            "bytes": len(data),
            "promised": promised,
            "offered": offered,
        }
        if not (self.wants_object(data) and await self._is_put_as_object(name, data, counts)):
            bindings = counts | {"pieces": pieces_of(data)}
            await self._pool.run(lambda connection: connection.execute(queries()["put_blob"], bindings))
        return name

    def wants_object(self, data: bytes) -> bool:
        """Whether a blob belongs into the object store."""
        return self._objects is not None and len(data) > self._tuning.object_bytes_min

    async def upload(self, name: str, data: bytes) -> str:
        """Store an object that is to hold a blob; return its key. Raises StoreUnreachable."""
        assert self._objects is not None, "see wants_object"
        # Nobody else ever uses this key, so deleting the object can't hurt who stores the same bytes again.
        key = f"{name}-{token_hex(8)}"
        await self._begin(key, self._objects.place)
        await self._objects.put(key, data)
        return key

    async def _begin(self, key: str, place: str) -> None:
        bindings = {"key": key, "place": place, "kept_s": self._tuning.object_kept_s}
        await self._pool.run(lambda connection: connection.execute(queries()["begin_object"], bindings))

    async def _forget(self, keys: list[str]) -> None:
        await self._pool.run(
            lambda connection: connection.execute(queries()["forget_objects"], {"keys": keys})
        )

    async def probe(self, objects: BlobBucket) -> None:
        """Write, read and delete an object; raises StoreUnreachable if that fails."""
        key = f"{PROBE}-{token_hex(8)}"
        await self._begin(key, objects.place)  # so that it goes, also after a crash
        await objects.probe(key)
        await self._forget([key])

    async def _is_put_as_object(self, name: str, data: bytes, counts: dict[str, object]) -> bool:
        """Store a large blob as an object; False if it has to be stored in rows."""
        objects = self._objects
        if objects is None or objects.trouble is not None:
            return False
        (there,) = await self._pool.rows("blob_place", name=name)
        if there["has_pieces"] or not await self._pool.run(self._types.allows_objects):
            return False
        key, broken = there["key"] or "", ""
        try:
            if not key or await objects.get(key, size=len(data)) != data:
                key, broken = await self.upload(name, data), key
        except StoreUnreachable:
            return False  # the object store says so itself
        return await self._pool.run(
            lambda connection: _is_linked(connection, counts | {"key": key, "broken": broken})
        )

    async def keep(self, name: str) -> bool:
        """Count one more event that is about to name a stored blob; False if there is none."""
        return bool(await self._pool.rows("keep_blob", name=clean(name)))

    async def get(self, name: str, rows: ReadRows | None = None) -> bytes | None:
        """The bytes, or None; raises StoreDamaged if they aren't the ones written or can't be found.

        `rows` runs the named query instead of the pool, for example in a transaction.
        """
        rows = rows or self._pool.rows
        missing = ""
        while found := await rows("blob", name=clean(name)):
            first = found[0]
            if first["data"] is not None or first["key"] is None:
                return await _verified(name, b"".join([row["data"] or b"" for row in found]))
            if first["key"] == missing:
                raise StoreDamaged(f"blob {name} is missing: {first['key']} isn't in {self._expected(first)}")
            data = await self._object(name, first)
            if data is not None:
                return await _verified(name, data)
            missing = first["key"]  # unless it was replaced or deleted meanwhile
        return None

    async def _object(self, name: str, row: Row) -> bytes | None:
        if self._objects is None:
            raise StoreDamaged(f"blob {name} is in {row['place']}, but {UNCONFIGURED}")
        return await self._objects.get(row["key"], size=row["bytes"])

    def _expected(self, row: Row) -> str:
        """Where the object should be, and where it was stored if that is another place."""
        place = self._objects.place if self._objects is not None else ""
        return place if place == row["place"] else f"{place}; it was stored in {row['place']}"

    async def sweep(self, *, unnamed_for_s: float) -> int:
        """Delete blobs that no event names and that weren't put or kept for this long; return how many."""
        swept = 0
        while True:
            ((count,),) = await self._pool.rows("sweep_blobs", unnamed_for_s=unnamed_for_s)
            swept += count
            if not count:
                self.look()
                return swept

    def look(self) -> None:
        """Look for objects to delete now, because blobs were deleted."""
        self._wanted.set()

    async def run(self) -> None:
        """Delete objects without blobs, until it is cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self.tend()
            except Exception as error:  # noqa: BLE001  # the store's lease depends on no bucket
                is_bug = not is_about(error, (JournalError,))
                _log.log(
                    logging.ERROR if is_bug else logging.INFO,
                    "objects that hold no blob will be deleted later",
                    exc_info=error if is_bug else None,
                )
            try:
                async with asyncio.timeout(self._tuning.object_look_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def tend(self) -> None:
        """Try an object store that is new or failed, and delete the objects that are due."""
        if self._objects is None:
            unreadable = await self.unreadable()
            if unreadable and self._unreadable is None:
                _log.warning("some blobs can't be read: %s", unreadable)
            self._unreadable = StoreDamaged(unreadable) if unreadable else None
            return
        if self._objects.trouble is not None or not self._is_tried:
            self._is_tried = True
            await self.probe(self._objects)
        while found := await self._pool.rows("due_objects"):
            keys = [row["key"] for row in found]
            await self._objects.delete(keys)
            await self._forget(keys)

    async def unreadable(self) -> str:
        """How much can't be read because no object store is configured; empty if everything can."""
        found = await self._pool.rows("blobs_in_objects") if self._objects is None else []
        return f"{in_words(found)}, but {UNCONFIGURED}" if found else ""

    async def close(self) -> None:
        """End all connections at once."""
        await self._pool.close()


def pieces_of(data: bytes) -> list[bytes]:
    """The rows of a blob."""
    return [data[at : at + BLOB_PIECE_BYTES] for at in range(0, len(data), BLOB_PIECE_BYTES)]


def in_words(found: list[Row]) -> str:
    """How many blobs are in which places."""
    return "; ".join(
        f"{row['blobs']} blob{'s are' if row['blobs'] > 1 else ' is'} in {row['place']} "
        f"({row['bytes'] / BLOB_PIECE_BYTES:.1f} MiB)"
        for row in found
    )


async def _is_linked(connection: Connection, bindings: dict[str, object]) -> bool:
    """Say that an object holds a blob; False if it may have been deleted since, so nothing has changed."""
    try:
        await connection.rows("put_object", **bindings)
    except RaiseError as error:
        _log.warning("a blob is stored in the database: %s", error)
        return False
    return True


async def _verified(name: str, data: bytes) -> bytes:
    if await _digest(data) != name:
        raise StoreDamaged(
            f"integrity check failed at blob {name}: its bytes are not the ones written; restore a backup"
        )
    return data


async def _digest(data: bytes) -> str:
    # A thread costs more than hashing a small blob.
    return _sha256(data) if len(data) <= BLOB_PIECE_BYTES else await asyncio.to_thread(_sha256, data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
