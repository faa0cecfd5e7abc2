"""What several nodes on one database must do, as functions of a lab: ours passes, sabotaged ones fail."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import pytest

from fakes.tcp_proxy import TcpProxy
from holdfast import events as e
from holdfast.codec import encode
from holdfast.features.postgres.connection import Connection, Database
from holdfast.features.postgres.node import end_node
from holdfast.features.postgres.plan import AppendPlan, DeltaPlan
from holdfast.features.postgres.queries import Query
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Appended, FenceLost, Store, UnknownSession
from journal.labs import PostgresLab
from journal.promise_checks import first_seqs
from journal.sample import AT_MS, begin, created, delta, message, say, seqs
from stores import PostgresStore

NodeCheck = Callable[[PostgresLab], Awaitable[None]]
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database() AND application_name = 'holdfast writer'"
)
_FROZEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' "
    "AND datname = current_database() AND application_name = 'holdfast writer'"
)
APPENDS_WATCHED = 50  # on a busy machine, the watcher is too late for most of them
_RENEWED = "SELECT expires_at FROM nodes WHERE name = 'first' AND expires_at > clock_timestamp()"
_LEASED = "SELECT count(*) FROM nodes WHERE expires_at > clock_timestamp()"


@asynccontextmanager
async def connected(lab: PostgresLab, *, query_s: float = 30.0) -> AsyncGenerator[Connection]:
    """A connection of the test's own."""
    connection = await Database(lab.dsn, PostgresTuning()).connect("test", query_s=query_s)
    try:
        yield connection
    finally:
        connection.terminate()


async def writers_wait(connection: Connection, count: int, *, unless: asyncio.Future[Any]) -> None:
    """Return when so many writers wait for a lock, or when there is nothing to wait for."""
    while not unless.done() and (await connection.fetch(_WAITING))[0][0] < count:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def check_no_statement_outlives_a_take_over(lab: PostgresLab) -> None:
    """P1: what a node had in flight when it was taken over from is not written afterwards."""
    frozen, other = await lab.join(), await lab.join()
    fence = await begin(frozen, run_id="r1")
    await say(frozen, 1, fence=fence)
    async with connected(lab) as blocker, connected(lab) as watcher:
        await blocker.run("BEGIN; SELECT 1 FROM sessions WHERE session_id = 's1' FOR UPDATE")
        appending = asyncio.ensure_future(frozen.append_run("s1", [delta("stale")], fence=fence))
        await writers_wait(watcher, 1, unless=appending)
        await lab.take_over(other)
        await blocker.run("ROLLBACK")
        with pytest.raises(FenceLost):
            await appending
    held = await other.claim("s1")
    assert await other.append_run("s1", [delta("ours")], fence=held) == Appended(4, 4)
    await frozen.close()
    await other.close()


async def check_a_take_over_ends_whoever_is_in_its_way(lab: PostgresLab) -> None:
    """P5: a dead node's beat that waits for its own statement delays no take-over, nor does the statement."""
    tuning = PostgresTuning(lock_s=0.05, query_s=3.0)
    store = await lab.join()
    node = f"WHERE incarnation = {store.node.incarnation}"
    async with connected(lab) as statement, connected(lab) as beat, connected(lab) as watcher:
        await statement.run(f"BEGIN; SELECT 1 FROM nodes {node} FOR UPDATE")  # noqa: S608
        beating = asyncio.ensure_future(beat.run(f"BEGIN; UPDATE nodes SET url = 'late' {node}"))  # noqa: S608
        blocked = f"SELECT count(*) FROM unnest(pg_blocking_pids({beat.pid}))"  # noqa: S608
        while not (await watcher.fetch(blocked))[0][0]:  # noqa: ASYNC110  # asked of the database
            await asyncio.sleep(0)
        assert await end_node(
            Database(lab.dsn, tuning), store.node.incarnation, ended="replaced", lock_s=tuning.lock_s
        )
        await asyncio.gather(beating, return_exceptions=True)
    await store.close()


async def check_raising_the_writer_waits_for_what_is_in_flight(lab: PostgresLab) -> None:
    """P1: once a node has a new connection, nothing of the old one is written any more."""
    store = await lab.join()
    fence = await begin(store, run_id="r1")
    await say(store, 1, fence=fence)
    async with connected(lab) as blocker, connected(lab, query_s=0.2) as new, connected(lab) as watcher:
        await blocker.run("BEGIN; SELECT 1 FROM sessions WHERE session_id = 's1' FOR UPDATE")
        appending = asyncio.ensure_future(store.append_run("s1", [delta("in flight")], fence=fence))
        await writers_wait(watcher, 1, unless=appending)
        with pytest.raises(TimeoutError):
            await new.rows("raise_writer", incarnation=store.node.incarnation, name=store.node.name)
        await blocker.run("ROLLBACK")
        assert await appending == Appended(4, 4)
    await store.close()


async def check_nothing_is_appended_after_a_release(lab: PostgresLab) -> None:
    """P1: a node that gave a session up writes nothing more for its runs."""
    store = await lab.join()
    fence = await begin(store, run_id="r1")
    await say(store, 1, fence=fence)
    await store.release("s1", fence)
    with pytest.raises(FenceLost):
        await store.append_run("s1", [delta("after the release")], fence=fence)
    assert await store.last_seq("s1") == 3
    await store.close()


async def check_an_input_after_a_purge_leaves_nothing(lab: PostgresLab) -> None:
    """P2: an input that comes while its session is purged is refused, not lost in a log that is gone."""
    one, other = await lab.join(), await lab.join()
    await begin(one)
    await other.append("s1", [message("now this node knows the log")])
    await one.put_note("session/s1/held", b"")
    async with connected(lab) as blocker, connected(lab) as watcher:
        await blocker.run("BEGIN; SELECT 1 FROM notes FOR UPDATE")
        purging = asyncio.ensure_future(one.purge("s1"))
        await writers_wait(watcher, 1, unless=purging)
        appending = asyncio.ensure_future(other.append("s1", [message("too late")]))
        await writers_wait(watcher, 2, unless=appending)
        await blocker.run("ROLLBACK")
        assert await purging
        with pytest.raises(UnknownSession):
            await appending
        left = "SELECT count(*) FROM events WHERE session NOT IN (SELECT key FROM sessions)"
        assert (await watcher.fetch(left))[0][0] == 0
    await one.close()
    await other.close()


async def check_a_delta_after_a_purge_leaves_nothing(lab: PostgresLab) -> None:
    """P1: deltas have a statement of their own, which waits for a purge like any other."""
    owner, other = await lab.join(), await lab.join()
    fence = await begin(owner, run_id="r1")
    await say(owner, 1, fence=fence)
    await other.put_note("session/s1/held", b"")
    async with connected(lab) as blocker, connected(lab) as watcher:
        await blocker.run("BEGIN; SELECT 1 FROM notes FOR UPDATE")
        purging = asyncio.ensure_future(other.purge("s1"))
        await writers_wait(watcher, 1, unless=purging)
        appending = asyncio.ensure_future(owner.append_run("s1", [delta("too late")], fence=fence))
        await writers_wait(watcher, 2, unless=appending)
        await blocker.run("ROLLBACK")
        assert await purging
        await asyncio.wait([appending])
        left = "SELECT count(*) FROM events WHERE session NOT IN (SELECT key FROM sessions)"
        assert (await watcher.fetch(left))[0][0] == 0
        with pytest.raises(UnknownSession):
            await appending
    await owner.close()
    await other.close()


async def check_deltas_that_share_a_statement_leave_no_gap(lab: PostgresLab) -> None:
    """P7: whatever else is written with them, and however little of their logs was known before."""
    store = await lab.join()
    await say(store, 1, fence=await begin(store, run_id="r1"))
    fence = await store.claim("s1")  # which makes the node forget the log
    await asyncio.gather(
        store.append_run("s1", [delta("a")], fence=fence),
        store.append_run("s1", [delta("b")], fence=fence),
        store.append("s2", [created()]),
    )
    assert seqs(await store.read("s1")) == [1, 2, 3, 4, 5]
    await store.close()


async def check_deltas_need_the_newest_fence(lab: PostgresLab) -> None:
    """P1: a claim since then has another number, whatever this node remembers; other sessions go on."""
    store = await lab.join()
    fences = [await begin(store, session_id=name, run_id=f"run of {name}") for name in ("s1", "s2")]
    for name, fence in zip(("s1", "s2"), fences, strict=True):
        await say(store, 1, session_id=name, fence=fence)
    async with connected(lab) as elsewhere:
        await elsewhere.run("UPDATE sessions SET fence = nextval('fences') WHERE session_id = 's1'")
    late, fine = [
        store.append_run(name, [delta("more")], fence=fence)
        for name, fence in zip(("s1", "s2"), fences, strict=True)
    ]
    assert isinstance(await fine, Appended)
    with pytest.raises(FenceLost):
        await late
    assert await store.last_seq("s1") == 3
    await store.close()


async def check_foreign_records_come_before_own_later_ones(lab: PostgresLab) -> None:
    """P7: a follower gets what another node wrote before what this node wrote after it, told of it or not."""
    store = await lab.join()
    await begin(store)
    following = asyncio.ensure_future(first_seqs(store, 3, after=1))
    await asyncio.sleep(0)
    body = encode(message("from a node whose notice is late"))
    insert = Query(
        "INSERT INTO events (session, seq, crc, body) SELECT key, nth, $1, $2 "
        "FROM sessions, generate_series(2, 3) AS nth WHERE session_id = 's1'",
        ("crc", "body"),
    )
    async with connected(lab) as connection:
        await connection.execute(insert, {"crc": crc32(body), "body": body})
    assert await store.append("s1", [message("own")]) == Appended(4, 4)
    assert await following == [2, 3, 4]
    assert seqs(await store.read("s1")) == [1, 2, 3, 4]
    await store.close()


async def check_a_frozen_node_holds_no_lock(lab: PostgresLab) -> None:
    """P5: between two messages of an append nothing is locked, so a node that freezes there blocks nobody."""
    store = await lab.join()
    async with connected(lab) as watcher:
        await begin(store, run_id="r1")
        for nth in range(APPENDS_WATCHED):
            appending = asyncio.ensure_future(store.append("s1", [message(f"message {nth}")]))
            while not appending.done():
                assert (await watcher.fetch(_FROZEN))[0][0] == 0
                await asyncio.sleep(0)
    await store.close()


async def check_nobody_is_told_before_the_commit(lab: PostgresLab) -> None:
    """P7: a notice that came too early finds nothing, and nobody tells of the event again."""
    one, other, third = await lab.join(), await lab.join(), await lab.join()
    await begin(one)
    await begin(one, "s2")
    await one.append("s1", [message("now the node knows the log")])
    following = asyncio.ensure_future(first_seqs(other, 2, after=1))
    ending = asyncio.ensure_future(first_seqs(other, 2, session_id="s2"))
    changes = other.changes()
    async with connected(lab) as blocker, connected(lab) as watcher:
        await blocker.run("BEGIN; SELECT 1 FROM sessions WHERE session_id = 's1' FOR UPDATE")
        appending = asyncio.ensure_future(one.append("s1", [message("later")]))
        await writers_wait(watcher, 1, unless=appending)
        await third.append("s3", [created()])
        while "s3" not in await anext(changes):  # so what was sent before is heard
            pass
        await blocker.run("ROLLBACK")
        await appending
    await one.purge("s2")  # others are told of this after they are told of the message
    assert await ending == [1]
    assert following.done()
    for store in (one, other, third):
        await store.close()


async def check_nobody_is_buried_because_the_database_was_away(lab: PostgresLab) -> None:
    """P5: after an outage all leases look expired; who lives gets the time to renew its own."""
    parts = urlsplit(lab.dsn)
    port = parts.port or 5432
    tuning = PostgresTuning(lease_s=2.0, beat_s=0.05, pause_first_s=0.01, pause_last_s=0.02)
    async with TcpProxy("127.0.0.1", port) as here, TcpProxy("127.0.0.1", port) as there:
        stores: list[Store] = []
        try:
            for name, proxy in (("first", here), ("second", there)):
                dsn = lab.dsn.replace(f":{port}/", f":{proxy.port}/")
                stores.append(await lab.kind.open(dsn, name=name, tuning=tuning))
            before = {store.node.incarnation for store in stores}
            here.cut()
            there.cut()
            async with connected(lab) as watcher:
                while (await watcher.fetch(_LEASED))[0][0]:  # noqa: ASYNC110  # asked of the database
                    await asyncio.sleep(0)
                here.heal()
                beats: set[object] = set()
                while len(beats) < 4:  # the first renewed its lease several times, and saw that of the second
                    beats |= {row[0] for row in await watcher.fetch(_RENEWED)}
                there.heal()
                while (await watcher.fetch(_LEASED))[0][0] < len(stores):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                assert {row[0] for row in await watcher.fetch("SELECT incarnation FROM nodes")} == before
        finally:
            for store in stores:
                await store.close()


async def check_a_sweep_leaves_a_blob_that_is_being_named(lab: PostgresLab) -> None:
    """P1: an event never names bytes that a sweep has just removed."""
    store = await lab.join()
    await begin(store)
    blob = await store.put_blob(b"old, and named just now")
    async with connected(lab) as blocker, connected(lab) as watcher:
        await blocker.run("UPDATE blobs SET touched_at = '2001-01-01'")
        await blocker.run(f"BEGIN; INSERT INTO blob_refs SELECT '{blob}', key FROM sessions")  # noqa: S608
        appending = asyncio.ensure_future(store.append("s1", [message("see this", blob=blob)]))
        await writers_wait(watcher, 1, unless=appending)
        assert await store.sweep_blobs() == 0
        await blocker.run("ROLLBACK")
        await appending
    assert await store.blob(blob) is not None
    await store.close()


class _TellsTooLate(PostgresStore):
    """A node whose notices arrive after everything that the others do next."""

    def _publish(self, plan: AppendPlan | DeltaPlan) -> None:
        """Tell nobody."""


async def check_a_late_notice_holds_up_no_stop(lab: PostgresLab) -> None:
    """P5, P7: what another node appended is seen with the next delta, not after many have gathered."""
    owner = await lab.join()
    other = await _TellsTooLate.open(lab.dsn, name="other")
    fence = await begin(owner, run_id="r1")
    await say(owner, 1, fence=fence)
    changes = owner.changes()
    patient = asyncio.ensure_future(anext(aiter(owner.follow("s1", after=3, pace="seldom"))))
    await other.append("s1", [e.StopRequested(at_ms=AT_MS, run_id="r1")])
    await other.close()
    assert not patient.done()
    await owner.append_run("s1", [delta("after the stop")], fence=fence)
    told = asyncio.ensure_future(anext(aiter(changes)))
    await asyncio.sleep(0)  # enough for what was told before the append returned
    try:
        assert told.done(), "nobody is told of what is in the gap"
        assert seqs(await patient) == [4, 5]
    finally:
        patient.cancel()
        told.cancel()
    await owner.close()


NODE_CHECKS: list[NodeCheck] = [
    check_no_statement_outlives_a_take_over,
    check_a_take_over_ends_whoever_is_in_its_way,
    check_raising_the_writer_waits_for_what_is_in_flight,
    check_nothing_is_appended_after_a_release,
    check_an_input_after_a_purge_leaves_nothing,
    check_a_delta_after_a_purge_leaves_nothing,
    check_deltas_need_the_newest_fence,
    check_deltas_that_share_a_statement_leave_no_gap,
    check_foreign_records_come_before_own_later_ones,
    check_a_frozen_node_holds_no_lock,
    check_nobody_is_told_before_the_commit,
    check_nobody_is_buried_because_the_database_was_away,
    check_a_sweep_leaves_a_blob_that_is_being_named,
    check_a_late_notice_holds_up_no_stop,
]
