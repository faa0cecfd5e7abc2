"""The store in one SQLite file, with blobs beside it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import interfaces as seams
from holdfast.codec import encode
from holdfast.events import Event, Input
from holdfast.interfaces import Record
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.commits import Commits
from holdfast.journal.connection import Durability
from holdfast.journal.follow import WINDOW_BYTES_MAX, Changes, Follower, Tails
from holdfast.journal.jobs import Append, Call
from holdfast.journal.reader import SqliteReader
from holdfast.journal.threads import Threads
from holdfast.journal.writer import Writer

if TYPE_CHECKING:
    from holdfast.journal.jobs import Work

# Blobs have threads of their own, so that writing large ones does not keep readers of the log waiting.
BLOB_THREADS = 2


class SqliteStore(SqliteReader):
    """Journal, index, notes and blobs in one directory; opening it makes this process the owner."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "power",
        vfs: str | None = None,
        window_bytes_max: int = WINDOW_BYTES_MAX,
    ) -> None:
        super().__init__(path, vfs=vfs)
        self._blobs = FileBlobs(path.with_name("blobs"))
        self._blob_threads = Threads(BLOB_THREADS, "holdfast-blobs")
        connect = partial(Commits, path, blobs=self._blobs, durability=durability, vfs=vfs)
        self._writer = Writer(path, connect)
        self._tails = Tails(self._read_on, window_bytes_max=window_bytes_max)
        self._fence = seams.Fence(0)
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        durability: Durability = "power",
        vfs: str | None = None,
        window_bytes_max: int = WINDOW_BYTES_MAX,
    ) -> "SqliteStore":
        """Open or create the store; every earlier owner loses its fence."""
        store = cls(path, durability=durability, vfs=vfs, window_bytes_max=window_bytes_max)
        try:
            store._fence = seams.Fence(await store._writer.open())
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """See Store.close; a caller that is cancelled does not stop it."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._writer.refuse()
        # Readers first: the last to let go of the file moves the write-ahead log into it.
        await super().close()
        await self._writer.close()
        self._tails.close()
        await self._blob_threads.close()

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
        append = self._new_append(session_id, inputs)
        append.when = when
        append.once = once
        return await self._writer.submit(append)

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: seams.Fence,
        when: Sequence[seams.Condition] = (),
        once: seams.Once | None = None,
    ) -> seams.Appended | seams.Declined | seams.Replayed:
        """See Journal.append_run."""
        append = self._new_append(session_id, events)
        append.when = when
        append.once = once
        append.fence = fence
        return await self._writer.submit(append)

    def _new_append(self, session_id: str, events: Sequence[Event]) -> Append:
        assert events, "an append holds at least one event"
        records = [Record(session_id, 0, body=encode(event), event=event) for event in events]
        return Append(self._writer.future(), session_id, records=records, tails=self._tails)

    async def _call(self, work: "Work", *, then: Callable[[], None] | None = None) -> Any:
        return await self._writer.submit(Call(self._writer.future(), work, then=then))

    def follow(self, session_id: str, *, after: int = 0) -> Follower:
        """See Journal.follow."""
        return self._tails.follow(session_id, after)

    def changes(self) -> Changes:
        """See Journal.changes."""
        return self._tails.changes()

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        return await self.read(session_id, after=after, limit=limit)

    async def purge(self, session_id: str) -> None:
        """See Journal.purge."""
        await self._call(
            lambda transaction: transaction.purge(session_id), then=lambda: self._tails.end(session_id)
        )

    async def put_note(self, key: str, value: bytes) -> None:
        """See Notes.put_note."""
        bindings = {"key": key, "value": value}
        await self._call(lambda transaction: transaction.execute("put_note", bindings))

    async def drop_note(self, key: str) -> None:
        """See Notes.drop_note."""
        await self._call(lambda transaction: transaction.execute("drop_note", {"key": key}))

    async def put_blob(self, data: bytes) -> str:
        """See Blobs.put_blob."""
        return await self._blob_threads.run(self._blobs.put, data)

    async def blob(self, name: str) -> bytes | None:
        """See Blobs.blob."""
        return await self._blob_threads.run(self._blobs.get, name)

    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        """Remove blobs that no event has named for so long; how many went."""
        since_unix_s = time.time() - unnamed_for_s
        swept = 0
        for name in await self._blob_threads.run(self._blobs.untouched_since, since_unix_s):
            drop = partial(self._blobs.drop_untouched, name, since_unix_s)
            # On the writer's thread, so that no event can come to name it meanwhile.
            swept += await self._call(lambda transaction, drop=drop: drop(is_named=transaction.is_blob_named))
        return swept
