"""The doctor's checks of a Postgres store: connection, durability, clock, and the bucket for large blobs."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from secrets import token_hex
from typing import TYPE_CHECKING

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.config.settings import Settings
from holdfast.features.postgres.backend import object_store, require_postgres
from holdfast.host.stores import store_place
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.features.postgres.blobs import PostgresBlobs
    from holdfast.features.postgres.connection import Connection, Database
    from holdfast.features.postgres.lost_commits import LostWrites
    from holdfast.features.postgres.objects import BlobBucket

BLOB_STORE = "blob store"
LOOKS_MAX = 1_000
NAMED_MAX = 3
VERSION_MIN = 15
SKEW_MAX_S = 1.0
SKEW_SAMPLES = 5
LISTEN_S = 3.0
_SETTINGS = (
    "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'server_version_num', "
    "'synchronous_commit', 'fsync', 'full_page_writes', 'synchronous_standby_names')"
)
_STANDBYS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'"


def check_database(settings: Settings) -> list[DoctorFinding]:
    """Everything about the database that the settings name."""
    try:
        require_postgres()
    except JournalError as error:
        return [fault("store", f"{store_place(settings)}: {error}", "install it, then run doctor again")]
    from holdfast.features.postgres.connection import Database
    from holdfast.features.postgres.tuning import PostgresTuning

    server, tuning = settings.server, PostgresTuning()
    try:
        database = Database(str(server.store), tuning)
        near = Database(str(server.store_direct), tuning) if server.store_direct else database
    except JournalError as error:
        advice = "fix server.store and server.store_direct"
        return [fault("store", f"{store_place(settings)}: {error}", advice)]
    try:
        objects = object_store(server.blob_store)
    except JournalError as error:
        return [fault(BLOB_STORE, str(error), "fix server.blob_store, then run doctor again")]
    return asyncio.run(_check(database, store_place(settings), near=near, objects=objects))


async def _check(
    database: "Database", place: str, *, near: "Database", objects: "BlobBucket | None"
) -> list[DoctorFinding]:
    try:
        connection = await database.connect("doctor")
    except (JournalError, OSError) as error:
        advice = "check the URL and password in server.store, and that the database accepts connections"
        return [fault("store", f"{place}: {error}", advice)]
    try:
        async with aclosing(_checks(near, connection, place)) as checks:
            findings = [finding async for finding in checks]
        blobs = _blobs_of(database, objects)
        try:
            async with aclosing(_check_objects(objects, connection, blobs)) as checks:
                return findings + [finding async for finding in checks]
        finally:
            await blobs.close()
    except JournalError as error:
        return [fault("store", f"{place}: {error}", "run doctor again")]
    finally:
        connection.terminate()


async def _checks(near: "Database", connection: "Connection", place: str) -> AsyncGenerator[DoctorFinding]:
    found = {row["name"]: row["setting"] for row in await connection.fetch(_SETTINGS)}
    yield _version(found, place)
    ((standbys,),) = await connection.fetch(_STANDBYS)
    yield durability(found, standbys=standbys)
    if (loss := await _loss(connection)) is not None:
        advice = "check sessions from that time for missing messages, and fix the durability settings"
        yield fault("lost writes", loss.text, advice, missing=loss.missing, restored=loss.restored)
    yield clock_skew(await _skew_s(connection))
    if not connection.pid:
        yield ok("pooler", "server.store is a pooler")
    yield await _listening(near, connection)


async def _loss(connection: "Connection") -> "LostWrites | None":
    """Return confirmed writes that the database lost within the last day; None if there are none."""
    from holdfast.features.postgres.lost_commits import NOTE, loss_in

    tables = await connection.fetch("SELECT to_regclass('notes') IS NOT NULL")
    note = await connection.value("note", key=NOTE) if tables[0][0] else None
    return loss_in(note, now_ms=int(time.time() * 1000))


def _version(found: Mapping[str, str], place: str) -> DoctorFinding:
    major = int(found["server_version_num"]) // 10_000
    text = f"{place}, Postgres {found['server_version']}"
    if major < VERSION_MIN:
        return fault("store", text, f"Holdfast needs Postgres {VERSION_MIN} or newer", version=major)
    return ok("store", text, version=major)


def durability(found: Mapping[str, str], *, standbys: int) -> DoctorFinding:
    """Whether what the database confirms survives a crash of its machine."""
    if found["fsync"] != "on" or found["full_page_writes"] != "on":
        text = f"fsync is {found['fsync']}, full_page_writes is {found['full_page_writes']}"
        return fault("durability", text, "a power cut can destroy the database; turn both on")
    if found["synchronous_commit"] == "off":
        advice = "a database crash can lose events that users have already seen; turn it on"
        return fault("durability", "synchronous_commit is off", advice)
    if standbys and not found["synchronous_standby_names"]:
        text = f"{standbys} of the standbys replicate asynchronously"
        advice = "a failover can lose the last events; set synchronous_standby_names to prevent that"
        return note("durability", text, advice, standbys=standbys)
    return ok("durability", "committed events survive a power cut")


def clock_skew(skew_s: float) -> DoctorFinding:
    """Whether this machine and the database agree about the time."""
    text = f"this machine's clock differs from the database's by {abs(skew_s):.2f} s"
    if abs(skew_s) > SKEW_MAX_S:
        return note("database clock", text, "synchronize both clocks, for example with NTP", skew_s=skew_s)
    return ok("database clock", text, skew_s=skew_s)


async def _skew_s(connection: "Connection") -> float:
    """By how much our clock is ahead; the sample with the shortest round trip is the most exact."""
    samples: list[tuple[float, float]] = []
    for _ in range(SKEW_SAMPLES):
        before_s = time.time()
        ((theirs_s,),) = await connection.fetch("SELECT extract(epoch FROM clock_timestamp())::float8")
        after_s = time.time()
        samples.append((after_s - before_s, (before_s + after_s) / 2 - theirs_s))
    return min(samples)[1]


async def _listening(near: "Database", connection: "Connection") -> DoctorFinding:
    """Whether notifications arrive; a pooler that shares connections between transactions loses them."""
    channel, heard = f"holdfast_doctor_{token_hex(4)}", asyncio.Event()
    try:
        listener = await near.connect("doctor")
    except (JournalError, OSError) as error:
        return fault("notifications", str(error), "check the URL in server.store_direct")
    try:
        await listener.listen(channel, lambda _: heard.set())
        await connection.run(f"NOTIFY {channel}")
        async with asyncio.timeout(LISTEN_S):
            await heard.wait()
    except TimeoutError:
        advice = (
            "servers poll the database instead, which adds load and delay; set server.store_direct to the "
            "direct URL of the database, without the pooler"
        )
        return note("notifications", "NOTIFY doesn't reach listening connections", advice)
    finally:
        listener.terminate()
    return ok("notifications", "LISTEN and NOTIFY work")


def _blobs_of(database: "Database", objects: "BlobBucket | None") -> "PostgresBlobs":
    """Open the blobs of the database. The caller closes them."""
    from holdfast.features.postgres.blobs import PostgresBlobs
    from holdfast.features.postgres.event_types import EventTypes
    from holdfast.features.postgres.tuning import PostgresTuning

    return PostgresBlobs(database, objects=objects, types=EventTypes(), tuning=PostgresTuning())


async def _check_objects(
    objects: "BlobBucket | None", connection: "Connection", blobs: "PostgresBlobs"
) -> AsyncGenerator[DoctorFinding]:
    """Check the bucket; nothing if none is configured or needed."""
    from holdfast.features.postgres.blobs import PROBE

    tables = await connection.fetch("SELECT to_regclass('blob_objects') IS NOT NULL")
    has_table = tables[0][0]
    if objects is None:
        if has_table and (unreadable := await blobs.unreadable()):
            yield fault(BLOB_STORE, unreadable, "until then, these blobs can't be read")
        return
    used = await connection.rows("blobs_in_objects") if has_table else []
    try:
        # The database knows of probes, so that one is deleted even if this is interrupted.
        await (blobs.probe(objects) if has_table else objects.probe(PROBE))
        missing = await _missing(objects, connection) if used else []
    except JournalError as error:
        advice = "check the endpoint, bucket, region, keys and the keys' permissions in server.blob_store"
        yield fault(BLOB_STORE, str(error), advice)
        return
    if missing:
        named = ", ".join(missing[:NAMED_MAX]) + (", …" if len(missing) > NAMED_MAX else "")
        text = f"{counted(len(missing), 'blob')} missing in {objects.place}: {named}"
        stored = "; ".join(row["place"] for row in used)
        yield fault(BLOB_STORE, text, f"restore the objects from a backup; they were stored in {stored}")
        return
    total = sum(row["blobs"] for row in used)
    text = f"{objects.place}: writing, reading and deleting work; {counted(total, 'blob')} there"
    yield ok(BLOB_STORE, text, blobs=total)


async def _missing(objects: "BlobBucket", connection: "Connection") -> list[str]:
    """The names of blobs whose objects aren't there; with many blobs, only some are looked at."""
    rows = await connection.rows("objects_to_check", limit=LOOKS_MAX)
    found = await asyncio.gather(*[objects.holds(row["key"], size=row["bytes"]) for row in rows])
    return [row["blob"] for row, is_there in zip(rows, found, strict=True) if not is_there]
