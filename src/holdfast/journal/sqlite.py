"""The store in one SQLite file, with blobs beside it."""

import time
from collections.abc import Sequence
from pathlib import Path

from holdfast import interfaces as seams
from holdfast.codec import encode
from holdfast.events import Event, Input
from holdfast.interfaces import Record
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.connection import Durability
from holdfast.journal.follow import Follower, Tails
from holdfast.journal.reader import SqliteReader
from holdfast.journal.transaction import Append
from holdfast.journal.writer import Job, Writer


class SqliteStore(SqliteReader):
    """Journal, index, notes and blobs in one directory; opening it makes this process the owner."""

    def __init__(self, path: Path, *, durability: Durability = "power", vfs: str | None = None) -> None:
        super().__init__(path, vfs=vfs)
        self._writer = Writer(path, self._deliver, durability=durability, vfs=vfs)
        self._blobs = FileBlobs(path.with_name("blobs"))
        self._tails = Tails(self._read_on)
        self._fence = seams.Fence(0)

    @classmethod
    async def open(
        cls, path: Path, *, durability: Durability = "power", vfs: str | None = None
    ) -> "SqliteStore":
        """Open or create the store; every earlier owner loses its fence."""
        store = cls(path, durability=durability, vfs=vfs)
        try:
            store._fence = seams.Fence(await store._writer.open())
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """See Store.close."""
        await self._writer.close()
        self._tails.close()
        await super().close()

    async def claim(self, session_id: str) -> seams.Fence:  # noqa: ARG002  # one fence covers the whole file
        """See Journal.claim."""
        return self._fence

    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[seams.Condition] = (),
        once: seams.Once | None = None,
    ) -> seams.Appended | seams.Declined | seams.Replayed | seams.KeyConflict:
        """See Journal.append."""
        return await self._append(session_id, inputs, fence=None, when=when, once=once)

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: seams.Fence,
        when: Sequence[seams.Condition] = (),
    ) -> seams.Appended | seams.Declined:
        """See Journal.append_run."""
        return await self._append(session_id, events, fence=fence, when=when, once=None)  # pyright: ignore[reportReturnType]

    async def _append(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: seams.Fence | None,
        when: Sequence[seams.Condition],
        once: seams.Once | None,
    ) -> seams.Appended | seams.Declined | seams.Replayed | seams.KeyConflict:
        records = [Record(session_id, 0, body=encode(event), event=event) for event in events]
        work = Append(session_id, records, fence, when, once)
        return await self._writer.submit(lambda transaction: transaction.append(work), append=work)

    def _deliver(self, jobs: Sequence[Job]) -> None:
        """Publish what a commit brought, then let go those who waited for it."""
        for job in jobs:
            if job.append is not None and isinstance(job.result, seams.Appended) and job.error is None:
                self._tails.publish(job.append.session_id, job.append.records)
        for job in jobs:
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

    def follow(self, session_id: str, *, after: int = 0) -> Follower:
        """See Journal.follow."""
        return self._tails.follow(session_id, after)

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        return await self.read(session_id, after=after, limit=limit)

    async def purge(self, session_id: str) -> None:
        """See Journal.purge."""
        blobs: Sequence[str] = await self._writer.submit(lambda transaction: transaction.purge(session_id))
        self._tails.end(session_id)
        for name in blobs:
            await self._blobs.drop(name)

    async def put_note(self, key: str, value: bytes) -> None:
        """See Notes.put_note."""
        bindings = {"key": key, "value": value}
        await self._writer.submit(lambda transaction: transaction.execute("put_note", bindings))

    async def drop_note(self, key: str) -> None:
        """See Notes.drop_note."""
        await self._writer.submit(lambda transaction: transaction.execute("drop_note", {"key": key}))

    async def put_blob(self, data: bytes) -> str:
        """See Blobs.put_blob."""
        return await self._blobs.put_blob(data)

    async def blob(self, name: str) -> bytes | None:
        """See Blobs.blob."""
        return await self._blobs.blob(name)

    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        """Remove blobs that no event has named for so long; how many went."""
        swept = 0
        for name in await self._blobs.untouched_since(time.time() - unnamed_for_s):
            if not await self.blob_is_named(name):
                await self._blobs.drop(name)
                swept += 1
        return swept
