"""The database goes away and comes back: what was answered is true, and nothing is written twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from fakes.tcp_proxy import TcpProxy
from holdfast.features.postgres.connection import MIGRATION_LOCK, Database
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Appended, OutcomeUnknown, Store, StoreClosed, StoreUnreachable
from journal.labs import PATIENT_TUNING, PostgresLab, until
from journal.promise_checks import first_seqs
from journal.sample import begin, delta, message, say, seqs
from postgres_lab import PostgresServer
from stores import PostgresStore

NEVER_S = 1e6
WRITE_S = 0.3
WAITING = """
  SELECT extract(epoch FROM clock_timestamp() - query_start) AS waits_s FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY query_start
"""
QUICK = replace(PATIENT_TUNING, pause_first_s=0.01, pause_last_s=0.05)


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy("127.0.0.1", postgres.port) as running:
        yield running


@pytest.fixture
def address(postgres: PostgresServer, postgres_dsn: str, proxy: TcpProxy) -> str:
    return postgres.through(postgres_dsn, port=proxy.port)


@pytest.fixture
async def direct(postgres_dsn: str) -> AsyncIterator[Store]:
    """Another node, which reaches the database without the proxy."""
    store = await PostgresLab(postgres_dsn).join()
    yield store
    await store.close()


async def test_whoever_waits_to_connect_is_woken_by_the_first_connection(postgres_dsn: str) -> None:
    """P3: when the database is back, nobody sleeps on because its own turn hasn't come."""
    database = Database(postgres_dsn, PostgresTuning())
    waiting = [asyncio.create_task(database.pause(NEVER_S)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    (await database.connect("test")).terminate()
    await asyncio.gather(*waiting)  # reaching the end is the proof


@pytest.mark.parametrize("lost", ["to_server", "to_client"])
async def test_an_append_whose_connection_is_cut_is_in_the_log_once(
    address: str, direct: Store, proxy: TcpProxy, lost: Literal["to_server", "to_client"]
) -> None:
    """P1, P2: the statement or its answer is lost, and the answer to the caller is right all the same."""
    store = await PostgresStore.open(address, name="cut", tuning=QUICK)
    fence = await begin(store)
    await say(store, 2, fence=fence)  # so that the statement is prepared, which takes an answer of its own
    proxy.black_hole(lost)
    appending = asyncio.ensure_future(store.append_run("s1", [delta("once")], fence=fence))
    following = asyncio.ensure_future(first_seqs(store, 1, after=3))
    await proxy.holds.wait()
    while lost == "to_client" and await direct.last_seq("s1") < 4:  # noqa: ASYNC110  # asked of the database
        await asyncio.sleep(0)
    proxy.drop()
    proxy.heal()
    assert await appending == Appended(4, 4)
    assert await following == [4]
    assert seqs(await direct.read("s1")) == [1, 2, 3, 4]
    assert await store.append_run("s1", [delta("and on")], fence=fence) == Appended(5, 5)
    await store.close()


async def test_a_write_that_cannot_be_resolved_is_unknown_and_later_ones_are_refused_until_it_can(
    address: str, direct: Store, proxy: TcpProxy
) -> None:
    impatient = replace(QUICK, resolve_s=0.5)  # a test reaches the end of this wait
    store = await PostgresStore.open(address, name="away", tuning=impatient)
    await begin(store)
    await store.append("s1", [message("now the store knows the end of the log")])
    following = asyncio.ensure_future(first_seqs(store, 1, after=2))
    proxy.black_hole("to_client")
    appending = asyncio.ensure_future(store.append("s1", [message("perhaps")]))
    await proxy.holds.wait()
    while await direct.last_seq("s1") < 3:  # noqa: ASYNC110  # asked of the database
        await asyncio.sleep(0)
    proxy.cut()
    with pytest.raises(OutcomeUnknown):
        await appending
    assert isinstance(store.trouble, StoreUnreachable)
    with pytest.raises(StoreUnreachable):
        await store.append("s1", [message("refused")])
    with pytest.raises(StoreUnreachable):
        await store.read("s1")
    proxy.heal()
    await until(lambda: store.trouble is None)
    assert await following == [3]
    assert await store.append("s1", [message("after")]) == Appended(4, 4)
    assert seqs(await direct.read("s1")) == [1, 2, 3, 4]
    await store.close()


async def test_after_every_connection_was_ended_the_store_goes_on(
    postgres: PostgresServer, postgres_dsn: str
) -> None:
    store = await PostgresLab(postgres_dsn, tuning=QUICK).join()
    fence = await begin(store)
    following = asyncio.ensure_future(first_seqs(store, 5))
    ending = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    for nth in range(4):
        await asyncio.to_thread(postgres.sql, ending, dsn=postgres_dsn)
        assert await _appended(store, f"{nth}", fence) == Appended(2 + nth, 2 + nth)
    assert await following == [1, 2, 3, 4, 5]
    await store.close()


async def _appended(store: PostgresStore, text: str, fence: object) -> object:
    """The outcome of an append, however long the store refuses it."""
    while True:
        try:
            return await store.append_run("s1", [delta(text)], fence=fence)  # pyright: ignore[reportArgumentType]
        except StoreUnreachable:
            await asyncio.sleep(0)


async def test_a_store_waits_for_a_database_that_is_not_there_yet(address: str, proxy: TcpProxy) -> None:
    proxy.cut()
    with pytest.raises(StoreUnreachable):
        await PostgresStore.open(address, name="early", tuning=QUICK)
    opening = asyncio.ensure_future(PostgresStore.open_readable(address, name="early", tuning=QUICK))
    await asyncio.sleep(0)
    proxy.heal()
    store = await opening
    await begin(store)
    await store.close()


async def test_a_new_schema_may_take_longer_than_a_write(new_postgres_dsn: str) -> None:
    """P3: an append has seconds, while an index of a large table takes more, as do tables on a slow disk."""
    database = Database(new_postgres_dsn, QUICK)
    other = await database.connect("another node")
    await other.run(f"BEGIN; {MIGRATION_LOCK}")
    opening = asyncio.create_task(
        PostgresStore.open_readable(new_postgres_dsn, name="new", tuning=replace(QUICK, write_s=WRITE_S))
    )
    looking = await database.connect("test")
    waiting: list[Any] = []
    while not waiting or waiting[0]["waits_s"] < 3 * WRITE_S:
        waiting = await looking.fetch(WAITING)
    assert len(waiting) == 1, "it gave up and tried again"
    await other.run("COMMIT")
    store = await opening
    for connection in (other, looking):
        connection.terminate()
    await store.close()


async def test_closing_does_not_wait_for_a_database_that_is_silent(address: str, proxy: TcpProxy) -> None:
    impatient = PostgresTuning(write_s=1.0, connect_s=NEVER_S, query_s=NEVER_S)  # it tries to leave
    store = await PostgresStore.open(address, name="silent", tuning=impatient)
    await begin(store)
    assert await store.note("n") is await store.blob("00" * 32) is None
    proxy.black_hole("to_client")
    # The first of each kind has a connection, the second opens one.
    queries = [store.note("n"), store.note("n"), store.blob("00" * 32), store.blob("00" * 32)]
    waiting = [asyncio.ensure_future(query) for query in queries]
    await proxy.holds.wait()
    await store.close()
    for query in waiting:
        with pytest.raises(StoreClosed):
            await query
