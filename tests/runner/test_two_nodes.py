"""Two nodes on one database: a session has one owner at a time, and another goes on where it stopped."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent.world import World, process
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.folds.transcript import fold, output
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.targets import Patience
from postgres_lab import PostgresServer, proxied
from stores import PostgresStore


@asynccontextmanager
async def node(
    chaos: ChaosServer, dsn: str, name: str, *, tuning: PostgresTuning | None = None
) -> AsyncGenerator[World]:
    store = await PostgresStore.open(dsn, name=name, tuning=tuning)
    try:
        async with process(chaos, store=store, patience=Patience()) as world:
            yield world
    finally:
        await store.close()


async def send(world: World, text: str) -> str:
    sent = await world.inbox.send("s", IncomingMessage(text=text))
    assert isinstance(sent, Sent)
    return sent.run_id


async def test_a_run_that_is_sent_to_one_node_while_another_works_on_the_session_waits_its_turn(
    postgres_dsn: str,
) -> None:
    """P4, P6: one owner at a time, whichever node takes the request."""
    gate = Gate()
    async with (
        ChaosServer([Say("one"), Wait(gate)], [Say("two")], [Say("three")]) as chaos,
        node(chaos, postgres_dsn, "a") as a,
        node(chaos, postgres_dsn, "b") as b,
    ):
        first = await send(a, "1")
        await b.until("s", e.TextDelta)
        second = await send(b, "2")
        gate.open()
        await b.until("s", e.RunEnded, times=2)
        third = await send(b, "3")
        log = await a.until("s", e.RunEnded, times=3)
    seen = fold((record.seq, record.event) for record in log)
    assert [output(seen, run_id) for run_id in (first, second, third)] == ["one", "two", "three"]
    assert not any(isinstance(record.event, e.RunResumed) for record in log)
    assert [record.seq for record in log] == list(range(1, len(log) + 1))


async def test_a_run_goes_on_at_another_node_when_its_own_shuts_down(postgres_dsn: str) -> None:
    """P6: also if that node was there before the run began."""
    never = Gate()
    async with ChaosServer([Say("half"), Wait(never)], [Say("whole")]) as chaos:
        async with node(chaos, postgres_dsn, "b") as b:
            async with node(chaos, postgres_dsn, "a") as a:
                run_id = await send(a, "1")
                await b.until("s", e.TextDelta)
                assert b.supervisor.owner("s") is None
            log = await b.until("s", e.RunEnded)
        never.open()
    assert output(fold((record.seq, record.event) for record in log), run_id) == "whole"
    assert sum(isinstance(record.event, e.RunResumed) for record in log) == 1


async def test_a_run_of_a_node_that_is_cut_off_goes_on_elsewhere_and_that_node_writes_nothing_more(
    postgres: PostgresServer, postgres_dsn: str
) -> None:
    """P4, P6: the first node comes back with output of its own, and the log has none of it."""
    gate, quick = Gate(), PostgresTuning(lease_s=1.5, beat_s=0.2)
    script = [Say("half "), Wait(gate), Say("too late")]
    async with (
        ChaosServer(script, [Say("whole")], [Say("next")]) as chaos,
        proxied(postgres, postgres_dsn) as (proxy, dsn),
        node(chaos, postgres_dsn, "b", tuning=quick) as b,
        node(chaos, dsn, "a", tuning=quick) as a,
    ):
        run_id = await send(a, "1")
        await b.until("s", e.TextDelta)
        proxy.cut()
        gate.open()
        await b.until("s", e.RunEnded)
        proxy.heal()
        await a.store.writable()
        second = await send(a, "2")
        log = await a.until("s", e.RunEnded, times=2)
        assert log[-1].seq == await b.store.last_seq("s")
    seen = fold((record.seq, record.event) for record in log)
    assert [output(seen, one) for one in (run_id, second)] == ["whole", "next"]
    texts = [record.event.text for record in log if isinstance(record.event, e.TextDelta)]
    assert "too late" not in "".join(texts)
    assert sum(isinstance(record.event, e.RunResumed) for record in log) == 1
    assert [record.seq for record in log] == list(range(1, len(log) + 1))
