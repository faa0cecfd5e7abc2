"""Several nodes on one store: one owner for each session, and what a node leaves is claimed by another."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import Effect, World, ending, process, send
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from holdfast.interfaces.tool import Tool
from holdfast.runner.inbox import IncomingMessage
from runner.memory_nodes import Cluster, NodeStore
from serving import PATIENT
from tools.calls import until


@asynccontextmanager
async def node(chaos: ChaosServer, store: NodeStore, *tools: Tool) -> AsyncGenerator[World]:
    async with process(chaos, *tools, store=store, patience=PATIENT) as world:
        yield world


def of_kind(log: list[e.Event], kind: type[e.Event]) -> list[e.Event]:
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


async def test_a_dead_nodes_run_goes_on_at_another_and_the_dead_one_writes_nothing_more() -> None:
    """P6: a crash of any node is a pause; a node that wakes up too late can't write."""
    cluster, receiver = Cluster(), list[str]()
    async with (
        ChaosServer([CallTool("effect", {})], [Hang()], [Say("done")]) as chaos,
        node(chaos, first := cluster.join("a"), Effect("effect", receiver)) as a,
        node(chaos, cluster.join("b"), Effect("effect", receiver)) as b,
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
