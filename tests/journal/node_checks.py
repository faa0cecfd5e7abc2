"""What several nodes on one database must do, as functions of a lab: ours passes, sabotaged ones fail."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

import pytest

from holdfast.codec import encode
from holdfast.interfaces.journal import Appended, FenceLost, UnknownSession
from holdfast.journal.postgres.connection import Connection, Database
from holdfast.journal.postgres.queries import Query
from holdfast.journal.postgres.tuning import PostgresTuning
from journal.labs import PostgresLab
from journal.promise_checks import first_seqs
from journal.sample import begin, delta, message, say, seqs

NodeCheck = Callable[[PostgresLab], Awaitable[None]]
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database() AND application_name = 'holdfast writer'"
)


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
            await new.rows("raise_writer", incarnation=store.node.incarnation)
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


NODE_CHECKS: list[NodeCheck] = [
    check_no_statement_outlives_a_take_over,
    check_raising_the_writer_waits_for_what_is_in_flight,
    check_nothing_is_appended_after_a_release,
    check_an_input_after_a_purge_leaves_nothing,
    check_foreign_records_come_before_own_later_ones,
]
