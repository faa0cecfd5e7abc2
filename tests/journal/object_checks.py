"""What must hold for blobs in a bucket, as checks that also find wrong implementations out."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from holdfast.config.server import BlobStoreSettings
from holdfast.features.postgres.blobs import PostgresBlobs
from holdfast.features.postgres.connection import Connection, Database, Row, migrate
from holdfast.features.postgres.event_types import EventTypes
from holdfast.features.postgres.objects import BlobBucket
from holdfast.features.postgres.queries import Query
from holdfast.interfaces.journal import StoreDamaged
from journal.labs import PATIENT_TUNING
from object_lab import PATIENT, S3Server, objects_in

BIG = bytes(range(256)) * 8_192
OTHER = BIG[::-1]
TINY = b"tiny enough to be stored many times"
ALL_S = -60.0  # blobs of any age
AGED = Query("UPDATE blob_objects SET due_at = due_at - interval '2 days' WHERE blob IS NULL", ())


class Crash(Exception):
    """The process ends here: whatever it tries afterwards doesn't happen either."""


class Steps:
    """Counts down to a crash."""

    def __init__(self, until_crash: int) -> None:
        self.left = until_crash

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash


class CrashingObjects(BlobBucket):
    """A bucket whose user crashes before or after a request."""

    def __init__(self, bucket: BlobStoreSettings, steps: Steps) -> None:
        super().__init__(bucket, patience=PATIENT)
        self._steps = steps

    @override
    async def put(self, key: str, data: bytes) -> None:
        self._steps.take()
        await super().put(key, data)
        self._steps.take()

    @override
    async def delete(self, keys: Sequence[str]) -> None:
        self._steps.take()
        await super().delete(keys)
        self._steps.take()


def crashing_database(dsn: str, steps: Steps) -> Database:
    """A database whose user crashes before or after a statement."""

    class CrashingConnection(Connection):
        @override
        async def rows(self, name: str, /, **bindings: Any) -> list[Row]:
            steps.take()
            found = await super().rows(name, **bindings)
            steps.take()
            return found

        @override
        async def execute(
            self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None
        ) -> int:
            steps.take()
            done = await super().execute(query, bindings, timeout_s=timeout_s)
            steps.take()
            return done

    class CrashingDatabase(Database):
        connection_type = CrashingConnection

    return CrashingDatabase(dsn, PATIENT_TUNING)


@dataclass(frozen=True)
class ObjectLab:
    """A database and the server with the buckets."""

    dsn: str
    s3: S3Server

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Connection]:
        """A connection to the database, which has its tables."""
        connection = await Database(self.dsn, PATIENT_TUNING).connect("test")
        try:
            await migrate(connection)
            yield connection
        finally:
            connection.terminate()

    @asynccontextmanager
    async def blobs(
        self,
        objects: BlobBucket | None,
        *,
        kind: type[PostgresBlobs] = PostgresBlobs,
        steps: Steps | None = None,
    ) -> AsyncGenerator[PostgresBlobs]:
        """The blobs as one process uses them."""
        tuning = replace(PATIENT_TUNING, object_bytes_min=len(TINY) - 1)
        database = crashing_database(self.dsn, steps) if steps else Database(self.dsn, tuning)
        blobs = kind(database, objects=objects, types=EventTypes(), tuning=tuning)
        try:
            yield blobs
        finally:
            await blobs.close()


async def _use(blobs: PostgresBlobs, acknowledged: dict[str, bytes]) -> None:
    """Everything that is done with blobs; `acknowledged` has what must be there now."""
    for data in (TINY, TINY[::-1], TINY):
        acknowledged[await blobs.put(data, promised=1)] = data
    acknowledged.clear()
    await blobs.sweep(unnamed_for_s=ALL_S)
    await blobs.tend()
    acknowledged[await blobs.put(TINY, offered=1)] = TINY


async def check_no_crash_separates_blobs_from_their_objects(
    lab: ObjectLab, kind: type[PostgresBlobs] = PostgresBlobs
) -> None:
    """P1, P2, P6: after a crash at any step, every blob is readable, and what holds no blob is deleted."""
    async with lab.connected() as connection:
        for nth in count():
            for table in ("blob_objects", "blob_refs", "blob_pieces", "blobs"):
                await connection.run(f"DELETE FROM {table}")  # noqa: S608  # names of ours
            bucket, steps = lab.s3.bucket(), Steps(nth)
            acknowledged: dict[str, bytes] = {}
            async with lab.blobs(CrashingObjects(bucket, steps), kind=kind, steps=steps) as blobs:
                try:
                    await _use(blobs, acknowledged)
                except* Crash:
                    pass
            has_crashed = steps.left < 0
            await _is_whole(lab, connection, bucket, acknowledged)
            if not has_crashed:
                return  # the scenario ran untouched: every step was tried


async def _is_whole(
    lab: ObjectLab, connection: Connection, bucket: BlobStoreSettings, acknowledged: dict[str, bytes]
) -> None:
    async with lab.blobs(objects_in(bucket)) as blobs:
        names = {row["name"] for row in await connection.fetch("SELECT name FROM blobs")}
        assert acknowledged.keys() <= names
        for name in names:
            assert await _readable(blobs, name), f"blob {name} is in no bucket"
        await connection.execute(AGED, {})
        await blobs.tend()
        rows = await connection.fetch("SELECT key, blob FROM blob_objects")
        assert all(row["blob"] for row in rows)
        assert lab.s3.everything(bucket) == {row["key"] for row in rows}


async def _readable(blobs: PostgresBlobs, name: str) -> bool:
    try:
        return await blobs.get(name) is not None
    except StoreDamaged:
        return False


async def check_changed_bytes_are_noticed(lab: ObjectLab, kind: type[PostgresBlobs] = PostgresBlobs) -> None:
    """P1: what is read is what was written, or an error that names the blob."""
    bucket = lab.s3.bucket()
    async with lab.connected(), lab.blobs(objects_in(bucket), kind=kind) as blobs:
        name = await blobs.put(BIG)
        (key,) = lab.s3.keys(bucket)
        lab.s3.damage(bucket, key)
        try:
            said = str(await blobs.get(name))
        except StoreDamaged as damage:
            said = str(damage)
        assert said.startswith(f"integrity check failed at blob {name}")


async def check_a_blob_that_comes_back_is_not_deleted(
    lab: ObjectLab, kind: type[PostgresBlobs] = PostgresBlobs
) -> None:
    """P2: a node deletes a blob's object after another one has stored the same bytes again."""
    bucket = lab.s3.bucket()
    async with (
        lab.connected(),
        lab.blobs(objects_in(bucket), kind=kind) as one,
        lab.blobs(objects_in(bucket), kind=kind) as other,
    ):
        name = await one.put(BIG)
        assert await one.sweep(unnamed_for_s=ALL_S) == 1
        assert await other.put(BIG) == name
        await one.tend()
        assert await _readable(other, name)
        assert len(lab.s3.keys(bucket)) == 1
