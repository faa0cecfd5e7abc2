"""Several nodes on one store: one owner for each session, and what a node leaves is claimed by another."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.world import Effect, World, ending, process, send
from holdfast import events as e
from holdfast.agent.instructions import MOVED
from holdfast.agent.placement import Placement
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from holdfast.interfaces.tool import Tool, ToolPlace, ToolTraits
from holdfast.runner.crash_history import SuspectTurns
from holdfast.runner.inbox import IncomingMessage
from holdfast.values import RunSettings
from models.calls.calling import TestClock
from runner.memory_nodes import Cluster, NodeStore
from serving import PATIENT
from tools.calls import until


@asynccontextmanager
async def node(
    chaos: ChaosServer, store: NodeStore, *tools: Tool, volume: Path | None = None
) -> AsyncGenerator[World]:
    placement = Placement(store.node.name, {"shared": volume} if volume else {})
    async with process(chaos, *tools, store=store, patience=PATIENT, placement=placement) as world:
        yield world


def effect(receiver: list[str], place: ToolPlace) -> Effect:
    return Effect("effect", receiver, ToolTraits(place=place))


def of_kind(log: Sequence[e.Event], kind: type[e.Event]) -> list[e.Event]:
    return [event for event in log if isinstance(event, kind)]


async def events(world: World, session_id: str = "s") -> list[e.Event]:
    return [record.event for record in await world.log(session_id)]


async def test_a_stop_sent_to_another_node_reaches_the_node_that_runs() -> None:
    """P5, P7: any node takes any request."""
    cluster = Cluster()
    async with (
        ChaosServer([Hang()]) as chaos,
        node(chaos, cluster.join("a")) as a,
        node(chaos, cluster.join("b")) as b,
    ):
        run_id = await send(a)
        await chaos.seen.until_body(1)
        await b.inbox.stop("s", run_id)
        end = ending(await b.until("s", e.RunEnded))
        assert (end.outcome, end.cause) == ("cancelled", "user_stop")
        assert len(of_kind(await events(a), e.RunEnded)) == 1


async def test_a_message_sent_to_another_node_is_answered_by_the_owner_once() -> None:
    """P2: the node that took the message does not start a second run beside the first."""
    cluster = Cluster()
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("first")], [Say("second")]) as chaos,
        node(chaos, cluster.join("a")) as a,
        node(chaos, cluster.join("b")) as b,
    ):
        await send(a, "one")
        await chaos.seen.until_body(1)
        await b.inbox.send("s", IncomingMessage(text="two"))
        gate.open()
        log = [record.event for record in await b.until("s", e.RunEnded, times=2)]
        assert len(of_kind(log, e.RunStarted)) == 2
        assert [end.outcome for end in log if isinstance(end, e.RunEnded)] == ["completed"] * 2
        assert len(chaos.seen.requests) == 2


async def test_a_session_that_its_node_could_not_release_is_worked_on_again() -> None:
    """P2, P3: whom the store calls its owner looks after it, though that node believes to have left it."""
    cluster = Cluster()
    async with (
        ChaosServer([Say("first")], [Say("second")]) as chaos,
        node(chaos, cluster.join("a")) as a,
        node(chaos, cluster.join("b")) as b,
    ):
        cluster.alive[0].loses_releases = True
        await send(a, "one")
        await a.until("s", e.RunEnded)
        await until(lambda: not a.supervisor.is_busy("s"))
        assert (await b.store.place("s")).owner == "a"
        await b.inbox.send("s", IncomingMessage(text="two"))
        log = [record.event for record in await b.until("s", e.RunEnded, times=2)]
        assert [end.outcome for end in log if isinstance(end, e.RunEnded)] == ["completed"] * 2


async def test_a_dead_nodes_run_goes_on_at_another_and_the_dead_one_writes_nothing_more() -> None:
    """P6: a crash of any node is a pause; a node that wakes up too late can't write."""
    cluster, receiver = Cluster(), list[str]()
    async with (
        ChaosServer([CallTool("effect", {})], [Hang()], [Say("done")]) as chaos,
        node(chaos, first := cluster.join("a"), effect(receiver, "anywhere")) as a,
        node(chaos, cluster.join("b"), effect(receiver, "anywhere")) as b,
    ):
        await send(a)
        await chaos.seen.until_body(2)
        cluster.bury(first)
        log = [record.event for record in await b.until("s", e.RunEnded)]
        assert [event.after for event in log if isinstance(event, e.RunResumed)] == ["crash"]
        assert ending(await b.log("s")).outcome == "completed"
        assert len(receiver) == 1  # no effect twice
        await until(lambda: not a.supervisor.active)
        assert await events(b) == log


async def test_a_draining_node_hands_its_runs_to_another() -> None:
    """P6: a restart of one node is no pause at all for its sessions."""
    cluster = Cluster()
    async with ChaosServer([Hang()], [Say("done")]) as chaos, node(chaos, cluster.join("b")) as b:
        async with node(chaos, cluster.join("a")) as a:
            await send(a)
            await chaos.seen.until_body(1)
        log = [record.event for record in await b.until("s", e.RunEnded)]
        assert [event.after for event in log if isinstance(event, e.RunResumed)] == ["restart"]
        assert ending(await b.log("s")).outcome == "completed"


async def test_many_sessions_that_nobody_owns_are_each_run_once_by_some_node() -> None:
    """P4: nodes that start together share the work, and no run has two endings."""
    cluster, ids = Cluster(), [f"s{number}" for number in range(20)]
    async with ChaosServer([Say("done")], after_last="repeat") as chaos:
        async with node(chaos, first := cluster.join("gone")) as gone:
            await gone.supervisor.drain()
            for session_id in ids:
                await send(gone, session_id=session_id)
        cluster.alive.remove(first)
        async with (
            node(chaos, cluster.join("a")) as a,
            node(chaos, cluster.join("b")),
            node(chaos, cluster.join("c")),
        ):
            for session_id in ids:
                await a.until(session_id, e.RunEnded)
            for session_id in ids:
                log = await events(a, session_id)
                assert len(of_kind(log, e.RunStarted)) == len(of_kind(log, e.RunEnded)) == 1
        assert len(chaos.seen.requests) == len(ids)


async def test_a_session_whose_files_are_on_a_dead_node_waits_for_it_until_a_person_moves_it() -> None:
    """P6: nobody continues it by guess; a stop works at once, and after a move the model is told."""
    cluster, receiver = Cluster(), list[str]()
    tool = effect(receiver, "workspace")
    async with (
        ChaosServer([CallTool("effect", {})], [Hang()], [Say("done")]) as chaos,
        node(chaos, first := cluster.join("a"), tool) as a,
        node(chaos, cluster.join("b"), tool) as b,
    ):
        await send(a)
        await chaos.seen.until_body(2)
        cluster.bury(first)
        await until(lambda: not a.supervisor.active)
        assert await b.store.claimable() == []
        before = await events(b)
        assert (await b.inbox.state("s")).home == "node:a"
        await b.inbox.put("s", e.SessionMoved(at_ms=1, by="person"))
        log = [record.event for record in await b.until("s", e.RunEnded)]
        assert log[: len(before)] == before
        assert ending(await b.log("s")).outcome == "completed"
        assert MOVED in str(chaos.seen.requests[-1].body)
        assert len(receiver) == 1


async def test_a_stop_ends_a_run_whose_files_are_on_a_dead_node_and_starts_nothing() -> None:
    """P5: a stop needs no files."""
    cluster = Cluster()
    tool = effect([], "node")
    async with (
        ChaosServer([CallTool("effect", {})], [Hang()], [Say("never")]) as chaos,
        node(chaos, first := cluster.join("a"), tool) as a,
        node(chaos, cluster.join("b"), tool) as b,
    ):
        run_id = await send(a)
        await chaos.seen.until_body(2)
        await b.inbox.send("s", IncomingMessage(text="two"))
        cluster.bury(first)
        await until(lambda: not a.supervisor.active)
        await b.inbox.stop("s", run_id)
        end = ending(await b.until("s", e.RunEnded))
        assert (end.outcome, end.cause) == ("cancelled", "user_stop")
        await until(lambda: not b.supervisor.active)
        assert len(chaos.seen.requests) == 2
        assert len(of_kind(await events(b), e.RunStarted)) == 1


async def test_a_session_on_a_shared_volume_goes_on_at_a_node_that_has_the_volume(tmp_path: Path) -> None:
    """P6: and not at one that doesn't."""
    cluster = Cluster()
    tool = effect([], "workspace")
    async with (
        ChaosServer([CallTool("effect", {})], [Hang()], [Say("done")]) as chaos,
        node(chaos, first := cluster.join("a", "shared"), tool, volume=tmp_path) as a,
        node(chaos, cluster.join("b"), tool) as b,
    ):
        await send(a, workspace=str(tmp_path))
        await chaos.seen.until_body(2)
        cluster.bury(first)
        await until(lambda: not a.supervisor.active)
        assert await b.store.claimable() == []
        async with node(chaos, cluster.join("c", "shared"), tool, volume=tmp_path) as c:
            await c.until("s", e.RunEnded)
            assert ending(await c.log("s")).outcome == "completed"
            assert (await c.inbox.state("s")).home == "volume:shared"


async def test_a_session_that_touched_no_machine_has_no_home() -> None:
    cluster = Cluster()
    async with (
        ChaosServer([CallTool("effect", {})], [Say("done")]) as chaos,
        node(chaos, cluster.join("a"), effect([], "anywhere")) as a,
    ):
        await send(a)
        await a.until("s", e.RunEnded)
        assert not (await a.inbox.state("s")).home


async def test_no_effect_begins_while_the_lease_of_its_node_is_about_to_end() -> None:
    """P6: a node that was frozen does nothing that another one may be doing already."""
    cluster, receiver = Cluster(), list[str]()
    store = cluster.join("a")
    async with (
        ChaosServer([CallTool("effect", {})], [Say("done")]) as chaos,
        node(chaos, store, effect(receiver, "anywhere")) as a,
    ):
        store.lease_left_s = 0.5
        await send(a)
        await a.until("s", e.ToolStarted)
        for _ in range(6):  # more than any other part looks once
            await store.looks.acquire()
        assert not receiver
        store.lease_left_s = 4.0
        await a.until("s", e.RunEnded)
        assert len(receiver) == 1


async def test_suspects_of_a_crash_loop_take_turns_on_all_nodes_together() -> None:
    """P10: a run that crashes its server must not take two of them down at once."""
    cluster, clock = Cluster(), TestClock()
    stores = [cluster.join(name) for name in "abc"]
    a, b, c = (SuspectTurns(store, clock, alone_s=60) for store in stores)
    await a.acquire("r1")
    clock.held = gate = Gate()
    second = asyncio.create_task(b.acquire("r2"))
    await gate.reached()
    assert (b.position("r2"), second.done()) == (1, False)
    await a.release()
    clock.held = None
    gate.open()
    await second
    clock.held = gate = Gate()
    third = asyncio.create_task(c.acquire("r3"))
    await gate.reached()
    cluster.bury(stores[1])  # the suspect has crashed it
    clock.held = None
    gate.open()
    await third
    assert c.position("r3") == 0


async def test_a_session_that_another_node_purged_and_someone_created_again_is_read_anew() -> None:
    """P2: a message to the new session is answered, and nothing of the old one is shown."""
    cluster = Cluster()
    async with (
        ChaosServer([Say("old")], [Say("new")]) as chaos,
        node(chaos, cluster.join("a")) as a,
        node(chaos, cluster.join("b")) as b,
    ):
        await send(b)
        await b.until("s", e.RunEnded)
        await until(lambda: not b.supervisor.active)
        assert await a.store.purge("s")
        await send(b)
        await b.until("s", e.RunEnded)
        view = await b.supervisor.view("s")
        assert [run.phase.value for run in view.session.runs.values()] == ["ended"]
        assert chaos.seen.requests_seen == 2


async def test_a_run_goes_on_at_a_node_that_has_the_target_it_names() -> None:
    """The node that took the message leaves it to one that can do as it was told."""
    cluster = Cluster()
    able, other = cluster.join("able"), cluster.join("other")
    able.offers, other.offers = ("target:main=1", "target:fast=2", "model:m"), ("target:main=1", "model:m")
    async with (
        ChaosServer([Say("done")]) as chaos,
        node(chaos, able) as a,
        node(chaos, other) as b,
    ):
        await b.inbox.send("s", IncomingMessage(text="hi", settings=RunSettings(model="fast")))
        await b.until("s", e.RunEnded)
        assert (able.claimed, other.claimed) == (["s"], [])
        assert ending(await a.log("s")).outcome == "completed"
