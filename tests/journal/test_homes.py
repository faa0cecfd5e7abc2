"""Where a session's files are decides which nodes may work on it."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.postgres.node import NodeEntry
from holdfast.interfaces.journal import HomedElsewhere
from holdfast.interfaces.nodes import SessionPlace
from journal.labs import PostgresLab
from journal.sample import AT_MS, begin, started
from stores import PostgresStore

TOOL = e.ToolStarted(at_ms=AT_MS, run_id="r1", tool_call_id="t1", effect_key="k", home="node:a")


@pytest.fixture
async def nodes(postgres_dsn: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    one = await PostgresStore.open(
        postgres_dsn, name="a", entry=NodeEntry(url="http://a", homes=("node:a", "volume:v"))
    )
    other = await PostgresStore.open(
        postgres_dsn, name="b", entry=NodeEntry(url="http://b", homes=("node:b", "volume:v"))
    )
    yield one, other
    await one.close()
    await other.close()


Pair = tuple[PostgresStore, PostgresStore]


async def leave(store: PostgresStore, *, home: str) -> None:
    """Begin a run that works at this home, and let the node end."""
    fence = await begin(store, run_id="r1")
    await store.append_run("s1", [started("r1")], fence=fence)
    await store.append_run("s1", [replace(TOOL, home=home)], fence=fence)
    await store.close()


async def test_a_node_leaves_a_session_alone_whose_files_it_cannot_reach(nodes: Pair) -> None:
    one, other = nodes
    fence = await begin(one, run_id="r1")
    await one.append_run("s1", [started("r1"), TOOL], fence=fence)
    assert await other.place("s1") == SessionPlace("a", "http://a", "node:a")
    assert [(node.name, node.sessions) for node in await other.nodes()] == [("a", 1), ("b", 0)]
    await one.close()
    assert await other.claimable() == []
    with pytest.raises(HomedElsewhere, match="node a"):
        await other.claim("s1")
    place = await other.place("s1")
    assert (place.owner, place.home, place.is_away) == ("", "node:a", True)
    assert place.away_since_ms > 0


async def test_a_stopped_run_may_be_ended_by_any_node(nodes: Pair) -> None:
    one, other = nodes
    await leave(one, home="node:a")
    await other.append("s1", [e.StopRequested(at_ms=AT_MS, run_id="r1")])
    assert list(await other.claimable()) == ["s1"]
    fence = await other.claim("s1", to_settle=True)
    ended = e.RunEnded(at_ms=AT_MS, run_id="r1", outcome="cancelled", cause="user_stop")
    await other.append_run("s1", [ended], fence=fence)


async def test_a_person_lets_another_node_continue(nodes: Pair) -> None:
    one, other = nodes
    await leave(one, home="node:a")
    await other.append("s1", [e.SessionMoved(at_ms=AT_MS)])
    assert list(await other.claimable()) == ["s1"]
    fence = await other.claim("s1")
    assert fence.crashed is False
    assert await other.place("s1") == SessionPlace("b", "http://b")


async def test_a_session_on_a_volume_goes_on_where_the_volume_is(nodes: Pair) -> None:
    one, other = nodes
    await leave(one, home="volume:v")
    assert list(await other.claimable()) == ["s1"]
    await other.claim("s1")


async def test_a_claim_says_whether_the_node_before_crashed(postgres_dsn: str) -> None:
    """P6: what people read about a resumed run is true."""
    lab = PostgresLab(postgres_dsn)
    dead, alive = await lab.join(), await lab.join()
    await begin(dead, run_id="r1")
    await lab.take_over(alive)
    assert (await alive.claim("s1")).crashed is True
    await alive.release("s1", await alive.claim("s1"))
    assert (await alive.claim("s1")).crashed is False
    await dead.close()
    await alive.close()
