"""Large blobs in a bucket: where they are, who deletes them, and what happens if the bucket fails."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.features.postgres.event_types import OBJECTS, READS
from holdfast.features.postgres.objects import ObjectPatience
from holdfast.interfaces.journal import StoreDamaged, StoreUnreachable
from journal.labs import PostgresLab
from journal.object_checks import AGED, ALL_S, BIG, OTHER, ObjectLab
from journal.sample import begin, created, delta, message
from object_lab import KEY, PATIENT, Fault, S3Faults, S3Server, objects_in
from stores import PostgresStore

SMALL = b"small" * 1_000
CHILD = Path(__file__).with_name("object_child.py")


@pytest.fixture
def lab(postgres_dsn: str, s3: S3Server) -> ObjectLab:
    return ObjectLab(postgres_dsn, s3)


@pytest.fixture
async def faults(s3: S3Server) -> AsyncIterator[S3Faults]:
    async with S3Faults(s3) as running:
        yield running


async def test_only_large_blobs_are_objects_and_a_purge_deletes_them(lab: ObjectLab) -> None:
    """P11: what a deleted session held is gone from the bucket, too."""
    bucket = lab.s3.bucket()
    stores = PostgresLab(lab.dsn, objects=objects_in(bucket))
    store = await stores.join()
    large, small = await store.put_blob(BIG), await store.put_blob(SMALL)
    await store.append("s1", [created(), message("x", blob=large), message("y", blob=small)])
    assert {key.partition("-")[0] for key in lab.s3.keys(bucket)} == {large}
    assert (await store.blob(large), await store.blob(small)) == (BIG, SMALL)
    await store.purge("s1")
    assert await store.blob(large) is None
    while lab.s3.keys(bucket):  # noqa: ASYNC110  # nobody tells us what the other server has deleted
        await asyncio.sleep(0)
    await store.close()


async def test_two_nodes_that_store_the_same_bytes_at_once_leave_one_object(lab: ObjectLab) -> None:
    """P2: both are told that the bytes are stored, and they are."""
    bucket = lab.s3.bucket()
    async with (
        lab.connected(),
        lab.blobs(objects_in(bucket)) as one,
        lab.blobs(objects_in(bucket)) as other,
    ):
        names = await asyncio.gather(*[blobs.put(BIG, promised=1) for blobs in (one, other) * 3])
        await one.tend()
        assert len(set(names)) == len(lab.s3.keys(bucket)) == 1
        assert await other.get(names[0]) == BIG


async def test_an_object_that_somebody_deleted_is_missed_and_comes_back_with_the_next_upload(
    lab: ObjectLab,
) -> None:
    bucket = lab.s3.bucket()
    objects = objects_in(bucket)
    async with lab.connected(), lab.blobs(objects) as blobs:
        name = await blobs.put(BIG)
        await objects.delete(list(lab.s3.keys(bucket)))
        with pytest.raises(StoreDamaged, match=f"blob {name} is missing: .* isn't in bucket {bucket.bucket}"):
            await blobs.get(name)
        assert await blobs.put(BIG) == name
        await blobs.tend()
        assert await blobs.get(name) == BIG
        assert len(lab.s3.keys(bucket)) == 1


async def test_a_process_that_dies_between_upload_and_commit_leaves_no_blob_and_later_no_object(
    lab: ObjectLab, faults: S3Faults
) -> None:
    """P1, P2: nobody was told that the blob is stored, and it isn't."""
    bucket = lab.s3.bucket(port=faults.port)
    async with lab.connected() as connection, lab.blobs(objects_in(bucket)) as blobs:
        stored = Fault("PUT", gate=asyncio.Event())
        faults.faults.append(stored)
        words = (lab.dsn, bucket.endpoint, bucket.prefix)
        child = await asyncio.create_subprocess_exec(sys.executable, str(CHILD), *words)
        await stored.met.wait()
        child.send_signal(signal.SIGKILL)
        await child.wait()
        assert await connection.fetch("SELECT name FROM blobs") == []
        await blobs.tend()
        assert len(lab.s3.keys(bucket)) == 1, "the upload may still be going on"
        await connection.execute(AGED, {})
        await blobs.tend()
        assert lab.s3.keys(bucket) == set()


async def test_while_a_bucket_is_silent_everything_else_goes_on(lab: ObjectLab, faults: S3Faults) -> None:
    """P2, P10: appends and the lease don't wait for an upload."""
    bucket = lab.s3.bucket(port=faults.port)
    store = await PostgresLab(lab.dsn, objects=objects_in(bucket)).join()
    silent = Fault("PUT", gate=asyncio.Event())
    faults.faults.append(silent)
    putting = asyncio.create_task(store.put_blob(BIG))
    await silent.met.wait()
    fence = await begin(store)
    for nth in range(50):
        await store.append_run("s1", [delta(str(nth))], fence=fence)
    assert [node.name for node in await store.nodes() if node.lease_left_s > 0] == [store.node.name]
    assert await store.blob(await store.put_blob(SMALL)) == SMALL
    assert not putting.done()
    assert silent.gate is not None
    silent.gate.set()
    assert await store.blob(await putting) == BIG
    await store.close()


async def test_a_bucket_that_stays_silent_is_given_up_and_the_blob_is_stored_in_the_database(
    lab: ObjectLab, faults: S3Faults
) -> None:
    """P2, P3: the wait ends, the blob is safe, and the next one doesn't wait at all."""
    bucket = lab.s3.bucket(port=faults.port)
    objects = objects_in(bucket, replace(PATIENT, answer_s=0.05, bytes_per_s=1e12))
    async with lab.connected(), lab.blobs(objects) as blobs:
        faults.faults.append(Fault("PUT", gate=asyncio.Event()))
        assert await blobs.get(await blobs.put(BIG)) == BIG
        assert "no answer within 0.05" in str(blobs.trouble)
        asked = len(faults.requests)
        assert await blobs.get(await blobs.put(OTHER)) == OTHER
        assert len(faults.requests) == asked


async def test_a_bucket_that_works_again_is_used_again(lab: ObjectLab, faults: S3Faults) -> None:
    bucket = lab.s3.bucket(port=faults.port)
    objects = objects_in(bucket)
    async with lab.connected(), lab.blobs(objects) as blobs:
        faults.refuses = "503 SlowDown"
        name = await blobs.put(BIG)
        assert str(objects.trouble).endswith("503 SlowDown")
        with pytest.raises(StoreUnreachable):
            await blobs.tend()
        faults.refuses = ""
        await blobs.tend()
        assert blobs.trouble is None
        assert await blobs.put(OTHER) != name
        assert len(lab.s3.keys(bucket)) == 1
        assert await blobs.get(name) == BIG


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PUT", answer="503 SlowDown"),
        Fault("PUT", answer="500 InternalError"),
        Fault("PUT", cut_request_after=1_000_000),
        Fault("PUT", cut_answer_after=0),
    ],
    ids=["slow down", "internal error", "cut in the body", "cut before the answer"],
)
async def test_an_upload_that_fails_once_is_tried_again(
    lab: ObjectLab, faults: S3Faults, fault: Fault
) -> None:
    bucket = lab.s3.bucket(port=faults.port)
    async with lab.connected(), lab.blobs(objects_in(bucket)) as blobs:
        fault.met = asyncio.Event()
        faults.faults.append(fault)
        name = await blobs.put(BIG)
        assert fault.met.is_set()
        assert await blobs.get(name) == BIG
        assert {key.partition("-")[0] for key in lab.s3.keys(bucket)} == {name}
        assert blobs.trouble is None


async def test_a_download_that_is_cut_is_whole_or_an_error(lab: ObjectLab, faults: S3Faults) -> None:
    """P1: half of the bytes are never taken for all of them."""
    bucket = lab.s3.bucket(port=faults.port)
    async with lab.connected(), lab.blobs(objects_in(bucket)) as blobs:
        name = await blobs.put(BIG)
        for _ in range(20):
            faults.faults.append(Fault("GET", cut_answer_after=100_000))
        with pytest.raises(StoreUnreachable):
            await blobs.get(name)
        faults.faults.clear()
        assert await blobs.get(name) == BIG


async def test_a_wrong_key_is_named_and_shown_to_nobody(lab: ObjectLab) -> None:
    """P11: the answer of the service is in the error, and the key isn't."""
    bucket = lab.s3.bucket(key=f"{KEY}-of-another")
    async with lab.connected(), lab.blobs(objects_in(bucket)) as blobs:
        assert await blobs.get(await blobs.put(BIG)) == BIG
        assert "403 SignatureDoesNotMatch" in str(blobs.trouble)
        assert KEY not in str(blobs.trouble)
        assert lab.s3.keys(bucket) == set()


async def test_a_key_that_may_not_delete_is_named(lab: ObjectLab, faults: S3Faults) -> None:
    """P11: what can't be deleted now is deleted once that is allowed."""
    bucket = lab.s3.bucket(port=faults.port)
    async with lab.connected(), lab.blobs(objects_in(bucket)) as blobs:
        for data in (BIG, OTHER):
            await blobs.put(data)
        await blobs.tend()
        await blobs.sweep(unnamed_for_s=ALL_S)
        faults.refuses = "403 AccessDenied"
        with pytest.raises(StoreUnreachable, match="403 AccessDenied"):
            await blobs.tend()
        assert len(lab.s3.keys(bucket)) == 2
        faults.refuses = ""
        await blobs.tend()
        assert lab.s3.keys(bucket) == set()


async def test_bytes_that_were_changed_are_replaced_by_the_next_upload(lab: ObjectLab) -> None:
    bucket = lab.s3.bucket()
    async with lab.connected(), lab.blobs(objects_in(bucket)) as blobs:
        name = await blobs.put(BIG)
        (key,) = lab.s3.keys(bucket)
        lab.s3.damage(bucket, key)
        assert await blobs.put(BIG) == name
        assert await blobs.get(name) == BIG
        await blobs.tend()
        assert len(lab.s3.keys(bucket)) == 1
        assert await blobs.put(BIG) == name
        assert len(lab.s3.keys(bucket)) == 1, "what is there and whole isn't uploaded again"


async def test_what_is_configured_wins_over_variables_for_other_programs(
    lab: ObjectLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = lab.s3.bucket()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-account")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    objects = objects_in(bucket, ObjectPatience(retries_max=0))
    await objects.put("key", b"bytes")
    assert await objects.get("key", size=5) == b"bytes"


async def test_a_server_without_its_bucket_says_which_blobs_it_cannot_read(lab: ObjectLab) -> None:
    bucket = lab.s3.bucket()
    async with lab.connected(), lab.blobs(objects_in(bucket)) as with_bucket, lab.blobs(None) as without:
        earlier = await without.put(OTHER)
        name = await with_bucket.put(BIG)
        assert await with_bucket.get(earlier) == OTHER, "what was stored before there was a bucket stays"
        await without.tend()
        told = f"1 blob is in {bucket.place} (2.0 MiB), but this server has no object store"
        assert str(without.trouble).startswith(told)
        with pytest.raises(StoreDamaged, match=f"blob {name} is in bucket {bucket.bucket}.*no object store"):
            await without.get(name)
        assert await without.put(BIG) == name
        assert await without.get(name) == BIG
        await without.tend()
        assert without.trouble is None


class OlderStore(PostgresStore):
    """A version that knows no buckets."""

    reads = READS - {OBJECTS}


async def test_no_blob_is_in_a_bucket_while_a_server_is_there_that_cannot_read_it(
    new_postgres_dsn: str, s3: S3Server
) -> None:
    bucket = s3.bucket()
    older = await OlderStore.open(new_postgres_dsn, name="older")
    newer = await PostgresLab(new_postgres_dsn, objects=objects_in(bucket)).join()
    assert await older.blob(await newer.put_blob(BIG)) == BIG
    await older.close()
    name = await newer.put_blob(OTHER)
    assert {key.partition("-")[0] for key in s3.keys(bucket)} == {name}
    await newer.close()
