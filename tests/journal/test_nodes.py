"""Several nodes on one database: any of them takes inputs, and one at a time works on a session."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from holdfast.features.postgres.node import NodeEntry
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    FenceLost,
    IfRunOpen,
    NodeNameTaken,
    OwnedElsewhere,
    Store,
    UnknownSession,
)
from journal.labs import PostgresLab
from journal.node_checks import connected
from journal.notice_campaign import forged_notices
from journal.promise_checks import drain, first_seqs
from journal.sample import begin, created, delta, ended, message, queued, say, seqs, started
from stores import PostgresStore

# A lease that a test waits for. Whoever has to keep one needs longer: on a busy machine beats come late.
QUICK = PostgresTuning(lease_s=0.5, beat_s=0.1)
LASTING = PostgresTuning(lease_s=20, beat_s=0.1)


@pytest.fixture
def lab(postgres_dsn: str) -> PostgresLab:
    return PostgresLab(postgres_dsn)


@pytest.fixture
async def nodes(lab: PostgresLab) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    one, other = await lab.join(), await lab.join()
    yield one, other
    await one.close()
    await other.close()


Pair = tuple[PostgresStore, PostgresStore]


async def test_inputs_at_two_nodes_are_one_log_without_gaps(nodes: Pair) -> None:
    await begin(nodes[0])

    async def write(store: Store, name: str) -> list[int]:
        given: list[int] = []
        for nth in range(15):
            appended = await store.append("s1", [message(f"{name} {nth}")])
            assert isinstance(appended, Appended)
            given.append(appended.first_seq)
        return given

    given = await asyncio.gather(*[write(store, f"{nth}") for nth, store in enumerate(nodes)])
    assert sorted([*given[0], *given[1]]) == list(range(2, 32))
    for store in nodes:
        assert seqs(await store.read("s1")) == list(range(1, 32))
        row = await store.session("s1")
        assert row is not None
        assert row.messages == 30


async def test_of_two_endings_at_two_nodes_one_is_written(nodes: Pair) -> None:
    await begin(nodes[0], run_id="r1")
    for store in nodes:
        await store.append("s1", [message("both know the log now")])
    outcomes = await asyncio.gather(
        *[store.append("s1", [ended("r1")], when=[IfRunOpen("r1")]) for store in nodes]  # pyright: ignore[reportArgumentType]
    )
    assert sorted(type(one).__name__ for one in outcomes) == ["Appended", "Declined"]
    assert await nodes[1].append("s1", [message("late")], when=[IfRunOpen("r1")]) == Declined(IfRunOpen("r1"))


async def test_a_session_is_created_once(nodes: Pair) -> None:
    outcomes = await asyncio.gather(*[store.append("s1", [created()]) for store in nodes])
    assert sorted(one.first_seq for one in outcomes if isinstance(one, Appended)) == [1, 2]


async def test_what_one_node_appends_is_followed_at_the_other(nodes: Pair) -> None:
    fence = await begin(nodes[0])
    changes = nodes[1].changes()
    following = asyncio.ensure_future(first_seqs(nodes[1], 13))
    await say(nodes[0], 5, fence=fence)
    await nodes[1].append("s1", [message("from the other side")])
    await say(nodes[0], 5, fence=fence)
    await nodes[0].append("s1", [message("done")])
    assert await following == list(range(1, 14))
    assert "s1" in await anext(changes)
    await nodes[0].append("s2", [created()])
    found = list(await anext(changes))
    while "s2" not in found:
        found += await anext(changes)


FORGED = {
    "no JSON": "x",
    "too short": "[1]",
    "no integers of Postgres": f"[1,1,[[{2**63},1,true]]]",
    "too deep": "[1,1,[],[],false,[]," + "[" * 7_000,
    "unknown keys": "[1,1,[[9000000,9,true]]]",
    "a log that is longer than it is": "[987,1,[[{key},900,true]]]",
    "a purge": '[987,1,[],["s1","s\\u0000"]]',
    "other seqs": '[987,1,[],[],false,["s1"]]',
}


async def test_a_forged_notification_keeps_no_node_from_working(nodes: Pair, lab: PostgresLab) -> None:
    """P10, P3: any role of the database can send one, without rights on any table."""
    for nth, (name, payload) in enumerate(FORGED.items()):
        await check_after_a_notice(nodes, lab, payload=payload.replace("987", f"{900 + nth}"), name=name)


async def check_after_a_notice(nodes: Pair, lab: PostgresLab, *, payload: str, name: str) -> None:
    one, other = nodes
    changes = other.changes()
    await begin(one, name)
    while name not in await anext(changes):
        pass
    following = other.follow(name, after=0)
    assert seqs(await anext(following)) == [1], name
    async with connected(lab) as stranger:
        ((key, schema),) = await stranger.fetch(
            f"SELECT key, current_schema() FROM sessions WHERE session_id = '{name}'"  # noqa: S608
        )
        for sent in (
            payload.replace("{key}", str(key)).replace("s1", name),
            f'[987,{key},[],["after {name}"]]',
        ):
            await stranger.run(f"SELECT pg_notify('holdfast_{schema}', '{sent}')")
    while f"after {name}" not in await anext(changes):
        pass
    for seq in range(2, 7):
        receiving = asyncio.ensure_future(anext(following))
        await other.read(name)  # by now the follower waits
        assert await one.append(name, [message(f"{seq}", message_id=f"m{seq}")]) == Appended(seq, seq), name
        assert seqs(await receiving) == [seq], name
    assert await other.append(name, [message("more")]) == Appended(7, 7), name
    assert (one.failing, other.failing) == ({}, {}), name


@pytest.mark.parametrize("seed", [1, 2])
async def test_any_notifications_leave_an_active_run_and_its_readers_alone(
    lab: PostgresLab, seed: int
) -> None:
    """P10, P3: the campaign itself asserts."""
    async with asyncio.timeout(60):
        await forged_notices(lab, seed=seed, count=150)


async def test_a_purge_at_one_node_ends_followers_at_the_other(nodes: Pair) -> None:
    await begin(nodes[0])
    await nodes[1].append("s1", [message("known here, too")])
    ending = asyncio.ensure_future(drain(nodes[1], "s1", after=2))
    await asyncio.sleep(0)
    assert await nodes[0].purge("s1")
    assert await ending == []
    with pytest.raises(UnknownSession):
        await nodes[1].append("s1", [message("too late")])
    assert await nodes[1].append("s1", [created()]) == Appended(1, 1)


async def test_one_node_at_a_time_works_on_a_session(nodes: Pair) -> None:
    one, other = nodes
    fence = await begin(one, run_id="r1")
    assert await one.claim("s1") == fence
    with pytest.raises(OwnedElsewhere, match="node-1"):
        await other.claim("s1")
    assert await other.claimable() == []
    assert await other.claimable(busy=[]) == []
    assert await one.claimable(busy=["s1"]) == []
    assert list(await one.claimable(busy=["s2"])) == ["s1"], "it may not know that it owns the session"
    await one.append_run("s1", [started("r1")], fence=fence)
    changed = other.ownership()
    await one.release("s1", fence)
    assert list(await anext(changed)) == ["claimable"]
    assert list(await other.claimable()) == ["s1"]
    with pytest.raises(FenceLost):
        await one.append_run("s1", [delta("after the release")], fence=fence)
    taken = await other.claim("s1")
    assert taken.number > fence.number
    assert await other.append_run("s1", [delta("mine")], fence=taken) == Appended(4, 4)
    with pytest.raises(FenceLost):
        await one.append_run("s1", [delta("no longer mine")], fence=fence)
    assert [node.name for node in await one.nodes()] == ["node-1", "node-2"]


async def test_sessions_of_a_node_that_closes_can_be_claimed_at_once(nodes: Pair) -> None:
    one, other = nodes
    await begin(one, run_id="r1")
    changed = other.ownership()
    await one.close()
    assert list(await anext(changed)) == ["claimable"]
    assert list(await other.claimable()) == ["s1"]
    await other.claim("s1")


async def test_a_node_that_was_taken_over_from_cannot_write_for_its_runs_but_takes_inputs(
    lab: PostgresLab,
) -> None:
    frozen, other = await lab.join(), await lab.join()
    lost = await begin(frozen, run_id="r1")
    await frozen.append_run("s1", [delta("mine")], fence=lost)
    changed = frozen.ownership()
    before = frozen.node.incarnation
    await lab.take_over(other)
    held = await other.claim("s1")
    with pytest.raises(FenceLost):
        await frozen.append_run("s1", [delta("stale")], fence=lost)
    assert list(await anext(changed)) == ["lost"]
    assert frozen.node.incarnation > before
    assert await frozen.append("s1", [message("an input needs no fence")]) == Appended(4, 4)
    assert await other.append_run("s1", [delta("ours")], fence=held) == Appended(5, 5)
    with pytest.raises(OwnedElsewhere):
        await frozen.claim("s1")
    await frozen.close()
    await other.close()


async def test_a_process_that_starts_again_replaces_its_predecessor(postgres_dsn: str) -> None:
    """P6: at once, because it has the lock of the same data directory."""
    entry = NodeEntry(identity="this machine, this directory")
    first = await PostgresStore.open(postgres_dsn, name="web", entry=entry)
    lost = await begin(first, run_id="r1")
    second = await PostgresStore.open(postgres_dsn, name="web", entry=entry)
    assert list(await second.claimable()) == ["s1"]
    await second.append("s1", [queued("r2")])
    with pytest.raises(FenceLost):
        await first.append_run("s1", [delta("stale")], fence=lost)
    with pytest.raises(NodeNameTaken, match="the name 'web' is running"):
        await first.append("s1", [message("x")])
    await first.close()
    await second.close()


async def test_a_second_server_with_the_name_of_a_living_one_is_refused(postgres_dsn: str) -> None:
    """P1, P6: its files may be others, so it must not continue the sessions of the first."""
    here, there = (NodeEntry(url=f"http://{one}", identity=one) for one in ("here", "there"))
    first = await PostgresStore.open(postgres_dsn, name="web", entry=here, tuning=LASTING)
    fence = await begin(first, run_id="r1")
    with pytest.raises(NodeNameTaken, match=r"is running at http://here and .* its own server.node_name"):
        await PostgresStore.open_readable(postgres_dsn, name="web", entry=there, tuning=LASTING)
    with pytest.raises(NodeNameTaken):  # one without an identity is no restart either
        await PostgresStore.open(postgres_dsn, name="web", tuning=LASTING)
    await first.append_run("s1", [delta("still mine")], fence=fence)
    await first.close()


async def test_a_server_gets_the_name_of_a_dead_one_on_another_machine_within_a_lease(
    postgres_dsn: str,
) -> None:
    """P6: the dead one, if it only slept, can neither write nor get its name back."""
    asleep, awake = replace(QUICK, beat_s=60), replace(LASTING, lease_s=2)
    dead = await PostgresStore.open(postgres_dsn, name="web", entry=NodeEntry(identity="a"), tuning=asleep)
    lost = await begin(dead, run_id="r1")
    second = await PostgresStore.open(postgres_dsn, name="web", entry=NodeEntry(identity="b"), tuning=awake)
    assert (await second.claim("s1")).crashed
    with pytest.raises(FenceLost):
        await dead.append_run("s1", [delta("stale")], fence=lost)
    with pytest.raises(NodeNameTaken):
        await dead.claim("s1")
    await dead.close()
    await second.close()


async def test_a_node_whose_lease_ran_out_is_taken_over_from(postgres_dsn: str) -> None:
    lab = PostgresLab(postgres_dsn, tuning=QUICK)
    dead = await PostgresStore.open(postgres_dsn, name="dead", tuning=replace(QUICK, beat_s=60))
    await begin(dead, run_id="r1")
    alive = await lab.join()
    changed = alive.ownership()
    while not await alive.claimable():  # a lease that ran out earlier was found so before anyone listened
        assert list(await anext(changed)) == ["claimable"]
    assert list(await alive.claimable()) == ["s1"]
    await alive.claim("s1")
    await dead.close()
    await alive.close()
