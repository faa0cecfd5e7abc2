"""The doctor's checks of the bucket for large blobs: whether it works, and whether every blob is in it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, ok
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.journal.postgres.blobs import PostgresBlobs
    from holdfast.journal.postgres.connection import Connection, Database
    from holdfast.journal.postgres.objects import BlobBucket

NAME = "blob store"
LOOKS_MAX = 1_000
NAMED_MAX = 3


def blobs_of(database: "Database", objects: "BlobBucket | None") -> "PostgresBlobs":
    """Open the blobs of the database. The caller closes them."""
    from holdfast.journal.postgres.blobs import PostgresBlobs
    from holdfast.journal.postgres.event_types import EventTypes
    from holdfast.journal.postgres.tuning import PostgresTuning

    return PostgresBlobs(database, objects=objects, types=EventTypes(), tuning=PostgresTuning())


async def check_objects(
    objects: "BlobBucket | None", connection: "Connection", blobs: "PostgresBlobs"
) -> AsyncGenerator[DoctorFinding]:
    """Check the bucket; nothing if none is configured or needed."""
    from holdfast.journal.postgres.blobs import PROBE

    tables = await connection.fetch("SELECT to_regclass('blob_objects') IS NOT NULL")
    has_table = tables[0][0]
    if objects is None:
        if has_table and (unreadable := await blobs.unreadable()):
            yield fault(NAME, unreadable, "until then, these blobs can't be read")
        return
    used = await connection.rows("blobs_in_objects") if has_table else []
    try:
        # The database knows of probes, so that one is deleted even if this is interrupted.
        await (blobs.probe(objects) if has_table else objects.probe(PROBE))
        missing = await _missing(objects, connection) if used else []
    except JournalError as error:
        advice = "check the endpoint, bucket, region, keys and the keys' permissions in server.blob_store"
        yield fault(NAME, str(error), advice)
        return
    if missing:
        named = ", ".join(missing[:NAMED_MAX]) + (", …" if len(missing) > NAMED_MAX else "")
        text = f"{counted(len(missing), 'blob')} missing in {objects.place}: {named}"
        stored = "; ".join(row["place"] for row in used)
        yield fault(NAME, text, f"restore the objects from a backup; they were stored in {stored}")
        return
    total = sum(row["blobs"] for row in used)
    text = f"{objects.place}: writing, reading and deleting work; {counted(total, 'blob')} there"
    yield ok(NAME, text, blobs=total)


async def _missing(objects: "BlobBucket", connection: "Connection") -> list[str]:
    """The names of blobs whose objects aren't there; with many blobs, only some are looked at."""
    rows = await connection.rows("objects_to_check", limit=LOOKS_MAX)
    found = await asyncio.gather(*[objects.holds(row["key"], size=row["bytes"]) for row in rows])
    return [row["blob"] for row, is_there in zip(rows, found, strict=True) if not is_there]
