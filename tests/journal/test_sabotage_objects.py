"""The proofs about blobs in a bucket are honest: each check passes for our code and fails for wrong code."""

from collections.abc import Awaitable, Callable
from secrets import token_hex

import pytest
from typing_extensions import override

from holdfast.features.postgres.blobs import PostgresBlobs, ReadRows
from holdfast.features.postgres.queries import queries
from journal.object_checks import (
    ObjectLab,
    check_a_blob_that_comes_back_is_not_deleted,
    check_changed_bytes_are_noticed,
    check_no_crash_separates_blobs_from_their_objects,
)
from object_lab import S3Server

pytestmark = pytest.mark.long

Check = Callable[[ObjectLab, type[PostgresBlobs]], Awaitable[None]]


class StoresBeforeItTells(PostgresBlobs):
    """Tells the database about an object once it is stored."""

    @override
    async def upload(self, name: str, data: bytes) -> str:
        assert self._objects is not None
        key = f"{name}-{token_hex(8)}"
        await self._objects.put(key, data)
        await self._record(key)
        return key

    async def _record(self, key: str) -> None:
        bindings = {"key": key, "place": "somewhere", "kept_s": 86_400.0}
        await self._pool.run(lambda connection: connection.execute(queries()["begin_object"], bindings))


class NamesBeforeItStores(StoresBeforeItTells):
    """Says that an object holds a blob, and then stores the object."""

    @override
    async def upload(self, name: str, data: bytes) -> str:
        assert self._objects is not None
        key = f"{name}-{token_hex(8)}"
        await self._record(key)
        counts = {"promised": 0, "offered": 0, "broken": ""}
        await self._pool.rows("put_object", key=key, name=name, bytes=len(data), **counts)
        await self._objects.put(key, data)
        return key


class DeletesObjectsFirst(PostgresBlobs):
    """Deletes the objects, and then the blobs."""

    @override
    async def sweep(self, *, unnamed_for_s: float) -> int:
        assert self._objects is not None
        rows = await self._pool.rows("objects_to_check", limit=100)
        await self._objects.delete([row["key"] for row in rows])
        return await super().sweep(unnamed_for_s=unnamed_for_s)


class CallsObjectsLikeBlobs(PostgresBlobs):
    """Gives equal bytes one key, which whoever deletes them deletes for everybody."""

    @override
    async def upload(self, name: str, data: bytes) -> str:
        assert self._objects is not None
        bindings = {"key": name, "place": "somewhere"}
        await self._pool.run(
            lambda connection: connection.run(
                "INSERT INTO blob_objects (key, place, due_at) "  # noqa: S608  # a digest
                f"VALUES ('{bindings['key']}', 'somewhere', now() + interval '1 day') "
                "ON CONFLICT (key) DO UPDATE SET due_at = excluded.due_at"
            )
        )
        await self._objects.put(name, data)
        return name

    @override
    async def tend(self) -> None:
        assert self._objects is not None
        await self._objects.delete(list(self._swept))

    @override
    async def sweep(self, *, unnamed_for_s: float) -> int:
        self._swept = [row["key"] for row in await self._pool.rows("objects_to_check", limit=100)]
        return await super().sweep(unnamed_for_s=unnamed_for_s)


class BelievesTheBucket(PostgresBlobs):
    """Returns what the bucket has."""

    @override
    async def get(self, name: str, rows: ReadRows | None = None) -> bytes | None:
        (row,) = await self._pool.rows("blob", name=name)
        return await self._object(name, row)


CHECKS: list[Check] = [
    check_no_crash_separates_blobs_from_their_objects,
    check_changed_bytes_are_noticed,
    check_a_blob_that_comes_back_is_not_deleted,
]
SABOTAGES: list[tuple[type[PostgresBlobs], Check]] = [
    (StoresBeforeItTells, check_no_crash_separates_blobs_from_their_objects),
    (NamesBeforeItStores, check_no_crash_separates_blobs_from_their_objects),
    (DeletesObjectsFirst, check_no_crash_separates_blobs_from_their_objects),
    (CallsObjectsLikeBlobs, check_a_blob_that_comes_back_is_not_deleted),
    (BelievesTheBucket, check_changed_bytes_are_noticed),
]


@pytest.fixture
def lab(postgres_dsn: str, s3: S3Server) -> ObjectLab:
    return ObjectLab(postgres_dsn, s3)


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
async def test_our_blobs_pass(check: Check, lab: ObjectLab) -> None:
    await check(lab, PostgresBlobs)  # the check itself asserts


@pytest.mark.parametrize(("kind", "check"), SABOTAGES, ids=lambda one: one.__name__)
async def test_wrong_blobs_are_found_out(kind: type[PostgresBlobs], check: Check, lab: ObjectLab) -> None:
    with pytest.raises(AssertionError):
        await check(lab, kind)
