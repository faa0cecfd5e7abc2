"""Nodes of several versions on one database: nobody writes what another one can't read."""

import asyncio
from zlib import crc32

import pytest

from holdfast import events as e
from holdfast.codec import UnreadableEvent
from holdfast.features.postgres.event_types import READS
from holdfast.features.postgres.queries import Query
from holdfast.interfaces.journal import Appended, NotReadableYet, StoreReadOnly
from holdfast.server.problems import problem_of
from journal.labs import PostgresLab
from journal.node_checks import connected
from journal.promise_checks import first_seqs
from journal.sample import AT_MS, begin, message
from stores import PostgresStore

PINNED = e.SessionPinned(at_ms=AT_MS)


class OlderStore(PostgresStore):
    """A version in which nobody could pin a session."""

    reads = READS - {"session.pinned"}


async def test_a_new_type_of_event_waits_for_the_last_node_that_cannot_read_it(new_postgres_dsn: str) -> None:
    lab = PostgresLab(new_postgres_dsn)
    newer = await lab.join()
    older = await OlderStore.open(new_postgres_dsn, name="older")
    await begin(newer)
    with pytest.raises(NotReadableYet, match=r"older runs an older Holdfast.*session\.pinned"):
        await newer.append("s1", [PINNED])
    assert await newer.append("s1", [message("others are written")]) == Appended(2, 2)
    await older.close()
    assert await newer.append("s1", [PINNED]) == Appended(3, 3)
    with pytest.raises(StoreReadOnly, match=r"a newer Holdfast \(session\.pinned\)"):
        await OlderStore.open(new_postgres_dsn, name="older")
    assert [node.name for node in await newer.nodes()] == [newer.node.name]
    await lab.close()


async def test_an_event_that_a_node_cannot_read_is_told_to_its_readers_and_harms_nobody_else(
    postgres_dsn: str,
) -> None:
    """P7: the log goes on, and only whoever needs the event is told that it can't be read."""
    lab = PostgresLab(postgres_dsn)
    one, other = await lab.join(), await lab.join()
    await begin(one)
    following = asyncio.ensure_future(first_seqs(one, 2, after=1))
    await asyncio.sleep(0)
    body = b'{"type":"session.dreamt","at_ms":1}'
    insert = Query(
        "INSERT INTO events (session, seq, crc, body) "
        "SELECT key, 2, $1, $2 FROM sessions WHERE session_id = 's1'",
        ("crc", "body"),
    )
    async with connected(lab) as connection:
        await connection.execute(insert, {"crc": crc32(body), "body": body})
    assert await other.append("s1", [message("after it")]) == Appended(3, 3)
    assert await following == [2, 3]
    record = (await one.read("s1"))[1]
    with pytest.raises(UnreadableEvent) as unreadable:
        assert record.event
    assert problem_of(unreadable.value).code == "unreadable_event"
    assert await one.append("s1", [message("and on")]) == Appended(4, 4)
    await lab.close()
