"""The store in one SQLite file, with blobs beside it."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import apsw
from typing_extensions import override

from holdfast.codec import bodies_of
from holdfast.events import Event
from holdfast.folds.rows import RunRow, SessionRow
from holdfast.interfaces.index import ListedSession
from holdfast.interfaces.journal import (
    Condition,
    Fence,
    IdempotencyKey,
    JournalError,
    Record,
)
from holdfast.interfaces.nodes import Node
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.follow import WINDOW_BYTES_MAX
from holdfast.journal.log_store import now_s
from holdfast.journal.sql_store import SqlStore
from holdfast.journal.sqlite.commits import Commits
from holdfast.journal.sqlite.histories import read_rows
from holdfast.journal.sqlite.jobs import AppendJob, TransactionJob
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.row_cache import RowCache
from holdfast.journal.sqlite.threads import Threads
from holdfast.journal.sqlite.tuning import Tuning
from holdfast.journal.sqlite.writer import Writer
from holdfast.journal.thinning import READ_AT_ONCE, Joining, ThinningPlan
from holdfast.redaction import Redactor
from holdfast.values import Durability, LogEnd

if TYPE_CHECKING:
    from holdfast.journal.sqlite.jobs import Work

_log = logging.getLogger(__name__)

# Blobs have their own threads, so that writing large ones doesn't delay readers of the log.
BLOB_THREADS = 2
# How often and how soon a purge retries while a reader keeps it from overwriting the text.
HELD_UP_MAX = 100
HELD_UP_S = 0.05


class SqliteStore(SqliteReader, SqlStore):
    """Journal, index, notes and blobs in one directory; opening it makes this process the owner."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        durability: Durability = "power",
        vfs: str | None = None,
        window_bytes_max: int = WINDOW_BYTES_MAX,
        tuning: Tuning | None = None,
    ) -> None:
        SqliteReader.__init__(self, path, vfs=vfs)
        SqlStore.__init__(self, redactor, window_bytes_max=window_bytes_max)
        self._blobs = FileBlobs(path.with_name("blobs"))
        self._blob_threads = Threads(BLOB_THREADS, "holdfast-blobs")
        connect = partial(Commits, path, blobs=self._blobs, durability=durability, vfs=vfs, tuning=tuning)
        self._writer = Writer(path, connect, forget=self._forget, tuning=tuning)
        self._row_cache = RowCache()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        redactor: Redactor,
        *,
        durability: Durability = "power",
        vfs: str | None = None,
        window_bytes_max: int = WINDOW_BYTES_MAX,
        tuning: Tuning | None = None,
    ) -> Self:
        """Open or create the store; all earlier owners lose their fence."""
        store = cls(
            path,
            redactor,
            durability=durability,
            vfs=vfs,
            window_bytes_max=window_bytes_max,
            tuning=tuning,
        )
        try:
            await store._writer.open()
            store._writer.insist()
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def open_readable(
        cls, path: Path, redactor: Redactor, *, durability: Durability = "power", tuning: Tuning | None = None
    ) -> Self:
        """Open or create the store; if it can be read but not written yet, `writable` waits until it can.

        Raises errors that are permanent. If the file can't be read either, this waits for it.
        """
        store = cls(path, redactor, durability=durability, tuning=tuning)
        try:
            await store._writer.open()
            if store.trouble is not None and not await store.is_readable():
                _log.warning("%s can't be read yet either, so this waits for it", path)
                await store.writable()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    @override
    def trouble(self) -> JournalError | None:
        return self._writer.trouble

    @override
    async def writable(self) -> None:
        await self._writer.opened()

    @override
    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._writer.refuse()
        # Readers first: the last one to close the file checkpoints the write-ahead log.
        await super().close()
        await self._writer.close()
        self._tails.close()
        self._ownership.close()
        self._row_cache.clear()
        await self._blob_threads.close()

    @override
    async def claim(
        self, session_id: str, *, to_settle: bool = False
    ) -> Fence:  # one fence covers the whole file
        self._writer.insist()
        return Fence(self._writer.fence)

    @override
    async def release(self, session_id: str, fence: Fence) -> None:
        self._writer.insist()

    @property
    @override
    def node(self) -> Node:
        return Node(incarnation=self._writer.fence)

    @override
    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        del busy
        return [row[0] for row in await self._rows("claimable", {"limit": limit})]

    @override
    def _submit(
        self,
        session_id: str,
        events: Sequence[Event],
        fence: Fence | None,
        when: Sequence[Condition],
        idempotency_key: IdempotencyKey | None,
    ) -> asyncio.Future[Any]:
        assert events, "an append holds at least one event"
        records: list[Record] = []
        size = 0
        for event, body in zip(events, bodies_of(events), strict=True):
            size += len(body)
            records.append(Record(session_id, 0, body, event))
        writer = self._writer
        return writer.submit(
            AppendJob(
                future=writer.future(),
                bytes=size,
                session_id=session_id,
                events=events,
                records=records,
                tails=self._tails,
                row_cache=self._row_cache,
                after_commit=self.hooks.after_commit,
                began_s=now_s(),
                fence=fence,
                when=when,
                idempotency_key=idempotency_key,
            )
        )

    def _forget(self) -> None:
        """Clear the caches, because another process may have written to the file."""
        self._connections.thaw()
        self._tails.forget()
        self._row_cache.clear()

    @override
    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        held = self._tails.read(session_id, after, max(limit, 0))
        return await super().read(session_id, after=after, limit=limit) if held is None else held

    @override
    async def last_seq(self, session_id: str) -> int:
        last_seq = self._tails.last_seq(session_id)
        return await super().last_seq(session_id) if last_seq is None else last_seq

    @override
    async def session(self, session_id: str) -> SessionRow | None:
        known = self._row_cache.session(session_id)
        return await super().session(session_id) if known is None else known.row

    @override
    async def listed(self, session_id: str) -> ListedSession | None:
        known = self._row_cache.session(session_id)
        return await super().listed(session_id) if known is None else known

    @override
    async def run(self, run_id: str) -> RunRow | None:
        known = self._row_cache.run(run_id)
        return await super().run(run_id) if known is None else known

    async def _call(self, work: "Work", *, then: Callable[[Any], None] | None = None) -> Any:
        return await self._writer.submit(TransactionJob(future=self._writer.future(), task=work, then=then))

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:

        def end(is_gone: object) -> None:
            if is_gone:
                self._end(session_id)
                if then is not None:
                    then()

        if not await self._call(lambda transaction: transaction.purge(session_id, only), then=end):
            return False
        # Some is done after each commit. These empty commits drive it if nobody else commits.
        for _ in range(HELD_UP_MAX):
            while (state := await self._call(lambda transaction: transaction.wiping)) == "going":
                pass
            if state != "held up":
                return True
            await asyncio.sleep(HELD_UP_S)
        _log.warning("%s is being read, so purged text will be overwritten later", self._path)
        return True

    @override
    async def _plan_on(self, plan: ThinningPlan, session_id: str, *, key: int, after: int) -> int:

        def work(db: apsw.Connection, sql: Mapping[str, str]) -> int:
            bindings = {"session": key, "after": after, "limit": READ_AT_ONCE}
            seq = 0
            for seq, crc, body in read_rows(db, sql, "read_to_thin", bindings):
                plan.add(seq, Record.verified(session_id, seq, crc=crc, body=body).event)
                if plan.is_over:
                    break
            return seq

        return await self._ask(work)

    @override
    async def _join(self, joining: Joining) -> int:
        gone = await self._call(
            lambda transaction: transaction.thin(joining),
            then=lambda _: self._tails.forget_one(joining.session_id),
        )
        return int(gone)

    def _end(self, session_id: str) -> None:
        self._row_cache.forget(session_id)
        self._tails.end(session_id)

    @override
    async def _execute(self, name: str, bindings: Mapping[str, Any]) -> int:
        return await self._call(lambda transaction: transaction.execute(name, bindings))

    @override
    async def put_blob(self, data: bytes) -> str:
        return await self._blob_threads.run(lambda: self._blobs.put(self.redactor.redact_bytes(data)))

    @override
    async def offer_blob(self, data: bytes) -> str:
        return await self._blob_threads.run(lambda: self._blobs.offer(self.redactor.redact_bytes(data)))

    @override
    async def keep_blob(self, name: str) -> bool:
        return await self._blob_threads.run(self._blobs.keep, name)

    @override
    async def blob(self, name: str) -> bytes | None:
        return await self._blob_threads.run(self._blobs.get, name)

    @override
    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        since_unix_s = time.time() - unnamed_for_s
        swept = 0
        for name in await self._blob_threads.run(self._blobs.untouched_since, since_unix_s):
            if (await self._rows("blob_is_named", {"blob": name}))[0][0]:
                continue  # most are named, and this check doesn't involve the writer
            drop = partial(self._blobs.drop_untouched, name, since_unix_s)
            # On the writer's thread, so that no event can start to name it meanwhile.
            swept += await self._call(lambda transaction, drop=drop: drop(is_named=transaction.is_blob_named))
        return swept
