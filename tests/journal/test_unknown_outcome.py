"""A write whose outcome nobody knows: the log is looked at before the events are written again."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from agent.world import process
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.folds.transcript import fold, output
from holdfast.interfaces.journal import (
    Appended,
    StoreUnreachable,
)
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.retrying_append import RetryingAppend, absorb
from holdfast.journal.spool import Spool, spool_files
from holdfast.runner.inbox import IncomingMessage, Sent
from journal.cut_store import CutStore
from journal.sample import begin, delta, texts
from stores import MemoryStore


@pytest.mark.parametrize("lands", [True, False])
async def test_a_run_cut_off_in_any_of_its_writes_has_each_event_once(lands: bool) -> None:  # noqa: FBT001
    """P1, P4: whether the write landed or not, what follows is the log of a run that nothing disturbed."""
    for nth in count(1):
        store = CutStore(MemoryStore(), nth=nth, lands=lands)
        async with ChaosServer([Say("one "), Say("two")]) as chaos, process(chaos, store=store) as world:
            sent = await world.inbox.send("s", IncomingMessage(text="hi"))
            assert isinstance(sent, Sent)
            following = asyncio.create_task(world.until("s", e.RunEnded))
            cut = asyncio.create_task(store.was_cut.wait())
            await asyncio.wait([following, cut], return_when=asyncio.FIRST_COMPLETED)
            store.is_back.set()
            log = await following
            cut.cancel()
        assert output(fold((record.seq, record.event) for record in log), sent.run_id) == "one two"
        kinds = [type(record.event) for record in log]
        assert kinds.count(e.RunStarted) == kinds.count(e.RunEnded) == kinds.count(e.TextDone) == 1
        assert not any(kind is e.RunResumed for kind in kinds)
        if not store.was_cut.is_set():
            assert nth > 3, "nothing was ever cut"
            break


@pytest.mark.parametrize("lands", [True, False])
async def test_events_of_an_unknown_write_that_a_crash_leaves_in_the_spool_land_once(
    lands: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """P1, P6: the next process looks at the log too, because the spool's own key was not on the first try."""
    inner = MemoryStore()
    fence = await begin(inner, run_id="r1")
    store, spool = CutStore(inner, lands=lands), Spool(tmp_path)
    writer = RetryingAppend(store, SystemClock(), run=("s1", "r1"), fence=fence, spool=spool, last_seq=1)
    writing = asyncio.create_task(writer.append([delta("x"), delta("x"), delta("y")]))
    await writer.is_late.wait()
    writing.cancel()
    await asyncio.wait([writing])
    with pytest.raises(StoreUnreachable):
        await absorb(store, tmp_path, now_ms=1)
    store.is_back.set()
    assert await absorb(store, tmp_path, now_ms=1) == 1
    assert texts(await inner.read("s1")) == ["x", "x", "y"]
    assert not await asyncio.to_thread(spool_files, tmp_path)


async def test_the_same_words_said_before_are_not_taken_for_those_of_the_unknown_write() -> None:
    inner = MemoryStore()
    fence = await begin(inner, run_id="r1")
    said = await inner.append_run("s1", [delta("x"), delta("x")], fence=fence)
    assert isinstance(said, Appended)
    store = CutStore(inner, lands=False)
    writer = RetryingAppend(store, SystemClock(), run=("s1", "r1"), fence=fence, last_seq=said.last_seq)
    writing = asyncio.create_task(writer.append([delta("x"), delta("x")]))
    await store.was_cut.wait()
    store.is_back.set()
    assert await writing == Appended(said.last_seq + 1, said.last_seq + 2)
    assert writer.last_seq == said.last_seq + 2
    assert texts(await inner.read("s1")) == ["x"] * 4


async def test_a_run_that_cannot_start_because_the_database_is_away_starts_when_it_is_back() -> None:
    """P3: whoever was accepted is not left waiting for the next restart."""
    store = CutStore(MemoryStore(), nth=10_000, lands=True)
    async with ChaosServer([Say("here")]) as chaos, process(chaos, store=store) as world:
        store.is_back.clear()
        await world.inbox.send("s", IncomingMessage(text="hi"))
        while world.supervisor.owner("s") is not None:  # noqa: ASYNC110  # it ends without a word
            await asyncio.sleep(0)
        store.is_back.set()
        assert texts(await world.until("s", e.RunEnded)) == ["here"]
