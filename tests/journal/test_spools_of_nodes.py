"""What a node that died has left in its spool, when another node has gone on with its runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import events as e
from holdfast.events import Event
from holdfast.interfaces.journal import Store
from holdfast.journal.retrying_append import absorb
from holdfast.journal.spool import Spool
from journal.labs import PostgresLab
from journal.sample import AT_MS, begin, delta, ended, started
from stores import PostgresStore


@pytest.fixture
async def nodes(postgres_dsn: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """A node that came back after its death, and the one that took over from it."""
    lab = PostgresLab(postgres_dsn)
    yield await lab.join(), await lab.join()
    await lab.close()


Pair = tuple[PostgresStore, PostgresStore]


def resumed(run_id: str = "r1") -> e.RunResumed:
    return e.RunResumed(at_ms=AT_MS, run_id=run_id, after="crash")


async def log(store: Store) -> list[Event]:
    return [record.event for record in await store.read("s1")]


async def test_a_spool_of_a_run_that_another_node_works_on_waits_until_the_run_has_ended(
    nodes: Pair, tmp_path: Path
) -> None:
    """P6: the node starts, nothing comes between what the other one writes, and late is not lost."""
    back, other = nodes
    fence = await begin(other, run_id="r1")
    await other.append_run("s1", [started("r1")], fence=fence)
    await Spool(tmp_path).put("s1", "r1", [delta("late")], after=3)
    assert await absorb(back, tmp_path, now_ms=AT_MS) == 0
    await other.append_run("s1", [resumed(), delta("anew"), ended("r1")], fence=fence)
    assert await absorb(back, tmp_path, now_ms=AT_MS) == 1
    assert await absorb(back, tmp_path, now_ms=AT_MS) == 0
    *_, last, recovered = await log(back)
    assert last == ended("r1")
    assert isinstance(recovered, e.OutputRecovered)


async def test_output_of_a_dead_node_does_not_follow_the_resumption_by_another_that_left_the_run(
    nodes: Pair, tmp_path: Path
) -> None:
    """P4: nothing of a dead incarnation comes after `run.resumed`, also once the session is free again."""
    back, other = nodes
    fence = await begin(other, run_id="r1")
    await other.append_run("s1", [started("r1")], fence=fence)
    spool = Spool(tmp_path)
    await spool.put("s1", "r1", [delta("late")], after=3)
    await spool.put("s1", "r1", [delta("later")], after=3)
    await other.append_run("s1", [resumed()], fence=fence)
    await other.release("s1", fence)
    assert await absorb(back, tmp_path, now_ms=AT_MS) == 0
    assert (await log(back))[-1] == resumed()


async def test_a_resumption_that_is_in_the_spool_itself_is_no_other_node_s(
    nodes: Pair, tmp_path: Path
) -> None:
    """P6: what a run said after its own resumption lands as the run's output."""
    back, _ = nodes
    await begin(back, run_id="r1")
    spool = Spool(tmp_path)
    await spool.put("s1", "r1", [started("r1"), resumed()], after=2)
    await spool.put("s1", "r1", [delta("said")], after=2)
    assert await absorb(back, tmp_path, now_ms=AT_MS) == 2
    assert (await log(back))[-3:] == [started("r1"), resumed(), delta("said")]
