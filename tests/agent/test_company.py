"""Deltas of runs that talk at once share a commit; a run alone never waits."""

import asyncio

import pytest

from holdfast import events as e
from holdfast.agent.company import Company
from holdfast.agent.runlog import RunLog
from holdfast.clock import SystemClock
from holdfast.journal.memory import MemoryStore


async def test_who_comes_alone_is_called_in_the_next_round_of_the_loop() -> None:
    company = Company()
    called: list[str] = []
    company.join(lambda: called.append("a"))
    assert called == []
    await asyncio.sleep(0)
    assert called == ["a"]


async def test_those_who_come_soon_after_wait_for_the_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.agent.company.BEAT_S", 3_600.0)
    company = Company()
    called: list[str] = []
    for name in "abc":
        company.join(lambda name=name: called.append(name))
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert called == ["a"]


async def test_at_the_beat_all_are_called_in_their_order() -> None:
    company = Company()
    called: list[str] = []
    done = asyncio.Event()
    for name in "abc":
        company.join(lambda name=name: called.append(name))
        await asyncio.sleep(0)
    company.join(done.set)
    await done.wait()
    assert called == ["a", "b", "c"]


async def test_what_a_caller_does_then_waits_for_the_beat_after_that() -> None:
    company = Company()
    done = asyncio.Event()

    def again() -> None:
        company.join(done.set)

    company.join(again)
    await done.wait()


async def test_only_deltas_behind_the_first_wait_and_nothing_waits_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P2, P3: if the beat never comes, a first word, an ending and whoever settles still get through."""
    monkeypatch.setattr("holdfast.agent.company.BEAT_S", 3_600.0)
    store = MemoryStore()
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
    fence = await store.claim("s")
    async with RunLog(store, SystemClock(), run=("s", "r"), fence=fence) as log:
        log.company.join(lambda: None)
        await asyncio.sleep(0)
        following = aiter(store.follow("s", after=1))
        log.say(1, "first")
        assert [type(record.event) for record in await anext(following)] == [e.TextDelta]
        log.say(1, " and more")
        for _ in range(10):
            await asyncio.sleep(0)
        assert await store.last_seq("s") == 2
        log.emit(e.TextDone(at_ms=1, run_id="r", segment=1, text="first and more"))
        assert [type(record.event) for record in await anext(following)] == [e.TextDelta, e.TextDone]
        log.say(2, "again")
        await anext(following)
        log.say(2, " and again")
        await log.settled()
        assert await store.last_seq("s") == 6
    await store.close()
