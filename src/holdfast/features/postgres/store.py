"""The store in a Postgres database, as one of any number of nodes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Self
from zlib import crc32

from typing_extensions import override

from holdfast.codec import bodies_of
from holdfast.events import Event
from holdfast.features.postgres.blobs import PostgresBlobs
from holdfast.features.postgres.connection import Connection, Database, Pool, migrate
from holdfast.features.postgres.event_types import READS, EventTypes
from holdfast.features.postgres.foreign import ForeignAppends
from holdfast.features.postgres.jobs import PendingAppend, PendingCall
from holdfast.features.postgres.lost_commits import NOTE as LOST_WRITES
from holdfast.features.postgres.lost_commits import Restoring, loss_in
from holdfast.features.postgres.node import Lease, Membership, NodeEntry, NodeRowGone
from holdfast.features.postgres.notices import NoticeListener, NoticeSender
from holdfast.features.postgres.objects import BlobBucket
from holdfast.features.postgres.plan import AppendPlan, DeltaPlan
from holdfast.features.postgres.queries import queries
from holdfast.features.postgres.reader import PostgresReader
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.features.postgres.words import clean
from holdfast.features.postgres.writer import StatementWriter, WriterHooks
from holdfast.interfaces.journal import (
    TRANSIENT_AT_OPENING,
    Condition,
    Fence,
    HomedElsewhere,
    IdempotencyKey,
    JournalError,
    LogWatch,
    OwnedElsewhere,
    Record,
    StoreClosed,
)
from holdfast.interfaces.nodes import Node, SessionPlace
from holdfast.journal.log_store import now_s
from holdfast.journal.sql_store import SqlStore
from holdfast.journal.thinning import READ_AT_ONCE, Joining, ThinningPlan, joined_body
from holdfast.redaction import Redactor
from holdfast.supervision import BackgroundTasks
from holdfast.values import LogEnd

_log = logging.getLogger(__name__)


class _Unwatched(LogWatch):
    """A log that other nodes write to: a notice of that may be late or lost."""

    __slots__ = ()

    @property
    @override
    def position(self) -> None:
        return None


class PostgresStore(PostgresReader, SqlStore):
    """Journal, index, notes and blobs in one database; opening it makes this process one of its nodes."""

    database_type: type[Database] = Database
    lease_type: type[Lease] = Lease
    listener_type: type[NoticeListener] = NoticeListener
    foreign_type: type[ForeignAppends] = ForeignAppends
    reads: frozenset[str] = READS  # the types of events that it can read

    def __init__(
        self,
        dsn: str,
        redactor: Redactor,
        *,
        name: str,
        entry: NodeEntry | None = None,
        tuning: PostgresTuning | None = None,
        objects: BlobBucket | None = None,
    ) -> None:
        self._tuning = tuning = tuning or PostgresTuning()
        database = self.database_type(dsn, tuning)
        # Past a pooler, for what needs a connection of its own: beats, notices, migrations and take-overs.
        near = self.database_type(tuning.direct, tuning) if tuning.direct else database
        self._direct = near if tuning.direct else None
        PostgresReader.__init__(self, Pool(database, "reader", tuning.readers))
        SqlStore.__init__(self, redactor, window_bytes_max=tuning.window_bytes_max)
        self._channel = ""
        self._types = EventTypes(self.reads)
        self._blobs = PostgresBlobs(database, objects=objects, types=self._types, tuning=tuning)
        self._membership = Membership(
            near, name=name, entry=entry or NodeEntry(), types=self._types, tuning=tuning
        )
        self._writer = StatementWriter(
            database, self._membership, self._hooks(), types=self._types, tuning=tuning
        )
        self._foreign = self.foreign_type(
            self._pool,
            self._tails,
            self._writer.heads,
            changed=self._ownership.tell,
            purged=self._writer.recent.forget,
        )
        self._lease = self.lease_type(
            near,
            self._membership,
            tuning=tuning,
            changed=self._ownership.tell,
            lost=self._writer.check_connection,
            channel=lambda: self._channel,
        )
        self._notifier = NoticeSender(
            database,
            incarnation=lambda: self._membership.incarnation,
            channel=lambda: self._channel,
            tuning=tuning,
        )
        self._listener = self.listener_type(
            near,
            self._foreign,
            incarnation=lambda: self._membership.incarnation,
            channel=lambda: self._channel,
            tuning=tuning,
        )
        self._helpers = BackgroundTasks()
        self._working = asyncio.create_task(self._work(), name="holdfast store")
        self._closing: asyncio.Task[None] | None = None

    def _hooks(self) -> WriterHooks:
        return WriterHooks(
            prepare=self._prepare,
            committed=self._publish,
            forget=self._forget,
            lost=lambda: self._ownership.tell("lost"),
            restored=self._restored,
        )

    @classmethod
    async def open(
        cls,
        dsn: str,
        redactor: Redactor,
        *,
        name: str,
        entry: NodeEntry | None = None,
        tuning: PostgresTuning | None = None,
        objects: BlobBucket | None = None,
    ) -> Self:
        """Join the store as a node, creating its tables if they are missing; raises if that fails now."""
        store = cls(dsn, redactor, name=name, entry=entry, tuning=tuning, objects=objects)
        try:
            await store._writer.tried.wait()
            store._writer.insist()
            await store._listener.is_ready.wait()
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def open_readable(
        cls,
        dsn: str,
        redactor: Redactor,
        *,
        name: str,
        entry: NodeEntry | None = None,
        tuning: PostgresTuning | None = None,
        objects: BlobBucket | None = None,
    ) -> Self:
        """Join the store as a node, and wait for the database if it can't be reached yet."""
        store = cls(dsn, redactor, name=name, entry=entry, tuning=tuning, objects=objects)
        try:
            await store.writable()
        except BaseException:
            await store.close()
            raise
        return store

    async def _prepare(self, connection: Connection) -> None:
        if not self._channel:
            await self._migrate(connection)
            ((schema,),) = await connection.fetch("SELECT current_schema()")
            self._channel = f"holdfast_{schema}"[:63]

    async def _migrate(self, connection: Connection) -> None:
        step_s = self._tuning.query_s
        if self._direct is None:
            await migrate(connection, step_s=step_s)
            return
        near = await self._direct.connect("migration")
        try:
            await migrate(near, step_s=step_s)
        finally:
            near.terminate()

    async def _work(self) -> None:
        """Do everything that the store does on its own, until it is closed."""
        try:
            async with self._helpers as helpers:
                for name, helper in self._helping().items():
                    helpers.start(name, partial(self._help, helper))
                await self._writer.run()
                self._notifier.released()
                await self._notifier.flush()
        except Exception as error:  # noqa: BLE001  # nobody waits for this task, so its error is logged
            _log.exception("the store has stopped working")
            self._writer.trouble = StoreClosed(
                f"the store accepts no more writes, restart Holdfast: {error!r}"
            )

    def _helping(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "node lease": self._lease.run,
            "change notices": self._notifier.run,
            "change listener": self._listener.run,
            "blob upkeep": self._blobs.run,
        }

    async def _help(self, work: Callable[[], Awaitable[None]]) -> None:
        await self._writer.decided.wait()
        await work()

    @property
    @override
    def failing(self) -> Mapping[str, str]:
        return self._helpers.failing

    @property
    @override
    def trouble(self) -> JournalError | None:
        return self._writer.trouble

    @property
    @override
    def blob_trouble(self) -> JournalError | None:
        return self._blobs.trouble

    @override
    async def lost_writes(self) -> str:
        found = loss_in(await self.note(LOST_WRITES), now_ms=int(time.time() * 1000) + self.clock_offset_ms)
        return "" if found is None else found.text

    @override
    async def writable(self) -> None:
        await self._writer.decided.wait()
        while isinstance(self.trouble, TRANSIENT_AT_OPENING):  # noqa: ASYNC110  # it may come and go
            await asyncio.sleep(self._tuning.pause_first_s)
        self._writer.insist()

    @override
    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._writer.refuse()
        await asyncio.wait([self._working])
        self._tails.close()
        self._ownership.close()
        await super().close()
        await self._blobs.close()

    @property
    @override
    def node(self) -> Node:
        return self._membership.node

    @property
    @override
    def clock_offset_ms(self) -> int:
        return self._lease.clock.offset_ms

    @override
    async def nodes(self) -> Sequence[Node]:
        found = await self._pool.rows("nodes")
        return [
            Node(
                row["name"],
                row["url"],
                row["incarnation"],
                max(row["lease_left_s"], 0.0),
                tuple(row["homes"]),
                row["sessions"],
                tuple(row["offers"]),
            )
            for row in found
        ]

    @override
    async def place(self, session_id: str) -> SessionPlace:
        found = await self._pool.rows("place", session_id=clean(session_id))
        return SessionPlace(**dict(found[0])) if found else SessionPlace()

    @override
    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        return [row["session_id"] for row in await self._claimable(limit, busy)]

    async def _claimable(self, limit: int, busy: Collection[str] | None) -> Sequence[Any]:
        member = self._membership
        return await self._pool.rows(
            "claimable",
            limit=limit,
            homes=list(member.homes),
            incarnation=member.incarnation,
            busy=None if busy is None else [clean(one) for one in busy],
        )

    @override
    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        return await self._call(
            lambda connection: self._claim(connection, clean(session_id), to_settle=to_settle)
        )

    async def _claim(self, connection: Connection, session_id: str, *, to_settle: bool) -> Fence:
        member = self._membership
        bindings = {"incarnation": member.incarnation, "writer": member.writer}
        claimed = await connection.rows(
            "claim", session_id=session_id, homes=list(member.homes), to_settle=to_settle, **bindings
        )
        self._writer.heads.forget([session_id])
        if claimed:
            return Fence(claimed[0]["fence"], crashed=claimed[0]["crashed"])
        if not await connection.value("is_node_alive", **bindings):
            raise NodeRowGone
        found = await connection.rows("owner", session_id=session_id)
        if not found:
            return Fence(await connection.value("reserve_fence"))
        owner = found[0]
        if owner["owner"] == member.incarnation:
            return Fence(owner["fence"])
        if owner["name"] is not None:
            raise OwnedElsewhere(owner["name"], owner["url"])
        if to_settle or owner["home"] in {"", *member.homes}:
            raise OwnedElsewhere("another", "")  # it has just been released, or its node has just ended
        raise HomedElsewhere(owner["home"])

    @override
    async def release(self, session_id: str, fence: Fence) -> None:
        async def release(connection: Connection) -> bool:
            bindings = {"session_id": clean(session_id), "fence": fence.number}
            found = await connection.rows("release", incarnation=self._membership.incarnation, **bindings)
            self._writer.heads.forget([session_id])
            return bool(found)

        if await self._call(release):
            self._notifier.released()

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
        if not session_id.isprintable():
            _insist_on_storable(session_id)
        records: list[Record] = []
        size = 0
        is_quiet = fence is not None and not when and idempotency_key is None
        deltas = self._types.deltas
        for event, body in zip(events, bodies_of(events), strict=True):
            size += len(body)
            if type(event) not in deltas:
                is_quiet = False
            records.append(Record(session_id, 0, body, event))
        writer = self._writer
        job = PendingAppend(writer.future(), session_id, records, size, fence, when, idempotency_key)
        job.events, job.began_s = events, now_s()
        if is_quiet:
            job.is_quiet = True
        else:
            job.new_types = self._types.new(events)
        return writer.submit(job)

    async def _call(
        self, work: Callable[[Connection], Awaitable[Any]], *, then: Callable[[Any], None] | None = None
    ) -> Any:
        return await self._writer.submit(PendingCall(future=self._writer.future(), work=work, then=then))

    def _publish(self, plan: AppendPlan | DeltaPlan) -> None:
        self._foreign.know(plan.touched)
        if isinstance(plan, DeltaPlan):
            self._tails.publish_deltas([(job.session_id, job.records) for job, _ in plan.jobs])
        else:
            for job, _ in plan.jobs:
                self._tails.publish(job.session_id, job.records)
        self._notifier.grown(plan.tops(), loud=plan.loud)
        if (after_commit := self.hooks.after_commit) is not None:
            written_s = now_s()
            for job, _ in plan.jobs:
                after_commit(job.events, written_s - job.began_s)

    def _forget(self) -> None:
        """Drop what other nodes or a failover may have changed."""
        self._tails.forget()
        self._foreign.forget_keys()

    def _restored(self, restoring: Restoring) -> None:
        """Tell of writes that the database had lost; readers of logs whose seqs have changed begin anew."""
        self._notifier.grown(restoring.grown, loud=restoring.grown)
        for session_id in restoring.moved:
            self._foreign.end(session_id)
            self._notifier.renewed(session_id)

    @override
    def watch(self, session_id: str) -> LogWatch:
        return _Unwatched()

    @override
    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        """What a follower gets next; if the newest records aren't in memory yet, a notice is coming."""
        held = self._tails.read(session_id, after, limit)
        if held is not None:
            return held
        return await self.read(session_id, after=after, limit=limit)

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        async def purge(connection: Connection) -> int:
            member = self._membership
            bindings = {"incarnation": member.incarnation, "writer": member.writer}
            end = only or LogEnd("", 0)
            gone = await connection.value(
                "purge" if only is None else "purge_only",
                session_id=clean(session_id),
                epoch=end.epoch,
                last_seq=end.last_seq,
                **bindings,
            )
            if gone == -2:  # noqa: PLR2004  # see purge_session
                raise NodeRowGone
            return gone

        def end(gone: int) -> None:
            if gone < 0:
                return
            self._writer.recent.forget(session_id)
            self._foreign.end(session_id)
            if gone:
                self._notifier.purged(session_id)
                self._blobs.look()
            if then is not None:
                then()

        return await self._call(purge, then=end) >= 0

    @override
    async def _plan_on(self, plan: ThinningPlan, session_id: str, *, key: int, after: int) -> int:
        seq = 0
        for row in await self._pool.rows("read_to_thin", session=key, after=after, limit=READ_AT_ONCE):
            seq = row["seq"]
            plan.add(seq, Record.verified(session_id, seq, crc=row["crc"], body=row["body"]).event)
            if plan.is_over:
                break
        return seq

    @override
    async def _join(self, joining: Joining) -> int:
        key = joining.key
        joins: list[tuple[int, int, int, bytes]] = []
        for stretch in joining.stretches:
            rows = await self._pool.rows("read_stretch", session=key, first=stretch.first, last=stretch.last)
            if len(rows) == stretch.count:
                records = [
                    Record.verified(joining.session_id, row["seq"], crc=row["crc"], body=row["body"])
                    for row in rows
                ]
                body = joined_body(records)
                joins.append((stretch.first, stretch.last, crc32(body), body))
        bindings = {
            "session": key,
            "firsts": [one[0] for one in joins],
            "lasts": [one[1] for one in joins],
            "crcs": [one[2] for one in joins],
            "bodies": [one[3] for one in joins],
            "upto_seq": joining.upto_seq,
            "upto_ms": joining.upto_ms,
        }
        return await self._call(
            lambda connection: connection.execute(queries()["join_stretches"], bindings),
            then=lambda _: self._tails.forget_one(joining.session_id),
        )

    @override
    async def _execute(self, name: str, bindings: Mapping[str, Any]) -> int:
        cleaned = {**bindings, "key": clean(bindings["key"])}
        return await self._call(lambda connection: connection.execute(queries()[name], cleaned))

    @override
    async def put_blob(self, data: bytes) -> str:
        self._writer.insist()
        return await self._blobs.put(await self._redacted(data), promised=1)

    @override
    async def offer_blob(self, data: bytes) -> str:
        self._writer.insist()
        return await self._blobs.put(await self._redacted(data), offered=1)

    async def _redacted(self, data: bytes) -> bytes:
        # In a thread: there can be many megabytes to search.
        return await asyncio.to_thread(self.redactor.redact_bytes, data) if self.redactor.texts else data

    @override
    async def keep_blob(self, name: str) -> bool:
        return await self._blobs.keep(name)

    @override
    async def blob(self, name: str) -> bytes | None:
        return await self._blobs.get(name)

    @override
    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        return await self._blobs.sweep(unnamed_for_s=unnamed_for_s)


def _insist_on_storable(session_id: str) -> None:
    """Raise for an id that the database can't store, before it is in anybody's way; none is printable."""
    if "\x00" in session_id:
        raise ValueError("a session's id can't contain U+0000")
    session_id.encode()
