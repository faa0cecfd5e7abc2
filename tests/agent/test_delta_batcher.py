"""Deltas of runs that talk at once share a commit; a run alone never waits."""

import asyncio

from agent.world import World, process, send
from holdfast import events as e
from holdfast.agent.runlog import DeltaBatcher, RunLog
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.interfaces.system_clock import SystemClock
from holdfast.runner.supervisor import RunnerLimits
from stores import MemoryStore

NEVER_S = 3_600.0  # the test is over long before


async def test_who_comes_alone_is_called_in_the_next_round_of_the_loop() -> None:
    batcher = DeltaBatcher()
    called: list[str] = []
    batcher.join(lambda: called.append("a"))
    assert called == []
    await asyncio.sleep(0)
    assert called == ["a"]


async def test_those_who_come_soon_after_wait_for_the_beat() -> None:
    batcher = DeltaBatcher(beat_s=NEVER_S)
    called: list[str] = []
    for name in "abc":
        batcher.join(lambda name=name: called.append(name))
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert called == ["a"]


async def test_at_the_beat_all_are_called_together_and_in_their_order() -> None:
    batcher = DeltaBatcher(beat_s=0.5)
    loop, called, done = asyncio.get_running_loop(), list[str](), asyncio.Event()

    def later() -> None:
        loop.call_soon(called.append, "after the beat")

    batcher.join(lambda: called.append("before"))
    await asyncio.sleep(0)
    batcher.join(later)
    for name in "abcd":
        batcher.join(lambda name=name: called.append(name))
    batcher.join(done.set)
    assert called == ["before"]
    await done.wait()
    assert called == ["before", *"abcd", "after the beat"]


async def test_what_a_caller_does_then_waits_for_the_beat_after_that() -> None:
    """P10: a run that has more to say at once does not keep the beat from ending."""
    batcher = DeltaBatcher(beat_s=NEVER_S)
    called: list[str] = []

    def again() -> None:
        called.append("again")
        batcher.join(again)

    batcher.join(again)
    for _ in range(10):
        await asyncio.sleep(0)
    assert called == ["again"]


async def test_all_runs_of_a_process_share_the_beat() -> None:
    """P10: what a run says just after another one did waits, and is one delta with what it says then."""
    limits = RunnerLimits(delta_beat_s=NEVER_S)
    more, again, last = Gate(), Gate(), Gate()
    one = [Say("a"), Wait(more), Say("b"), Wait(last)]
    other = [Say("c"), Wait(again), Say("d"), Wait(last), Say("e")]
    async with ChaosServer(one, other) as chaos, process(chaos, limits=limits) as world:
        await send(world, session_id="one")
        await world.until("one", e.TextDelta)
        more.open()
        await world.until("one", e.TextDelta, times=2)
        run_id = await send(world, session_id="other")
        await world.until("other", e.TextDelta)
        owner = world.supervisor.owner("other")
        assert owner is not None
        log = owner.logs[run_id]
        await log.flush()
        again.open()
        while log.is_flushed and len(await said(world, "other")) == 1:  # noqa: ASYNC110  # it rings no bell
            await asyncio.sleep(0)
        last.open()
        await world.until("other", e.RunEnded)
        assert await said(world, "other") == ["c", "de"]


async def said(world: World, session_id: str) -> list[str]:
    return [one.event.text for one in await world.log(session_id) if isinstance(one.event, e.TextDelta)]


async def test_only_deltas_behind_the_first_wait_and_nothing_waits_behind_them() -> None:
    """P2, P3: if the beat never comes, a first word, an ending and whoever settles still get through."""
    store = MemoryStore()
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
    fence = await store.claim("s")
    async with RunLog(store, SystemClock(), run=("s", "r"), fence=fence) as log:
        log.batcher = DeltaBatcher(beat_s=NEVER_S)
        log.batcher.join(lambda: None)
        await asyncio.sleep(0)
        following = aiter(store.follow("s", after=1))
        log.say(1, "first")
        assert [type(record.event) for record in await anext(following)] == [e.TextDelta]
        log.say(1, " and more")
        for _ in range(10):
            await asyncio.sleep(0)
        assert await store.last_seq("s") == 2
        log.emit(e.RunResumed(at_ms=1, run_id="r", after="restart"))
        assert [type(record.event) for record in await anext(following)] == [e.TextDelta, e.RunResumed]
        log.say(2, "again")
        await anext(following)
        log.say(2, " and again")
        await log.flush()
        assert await store.last_seq("s") == 6
    await store.close()


async def test_a_text_that_came_at_once_is_written_with_what_follows_or_after_a_beat() -> None:
    """P2: whoever waits for it to be on disk doesn't wait for the beat."""
    store = MemoryStore()
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
    done, ended = (
        e.TextDone(at_ms=1, run_id="r", segment=1, text="hi"),
        e.RunResumed(at_ms=1, run_id="r", after="restart"),
    )
    async with RunLog(store, SystemClock(), run=("s", "r"), fence=await store.claim("s")) as log:
        log.batcher = DeltaBatcher(beat_s=NEVER_S)
        following = aiter(store.follow("s", after=1))
        for end in (lambda: log.emit(ended), lambda: None):
            before = await store.last_seq("s")
            log.say(log.next_segment(), "hi")
            log.emit(done)
            for _ in range(10):
                await asyncio.sleep(0)
            assert await store.last_seq("s") == before
            assert not log.is_flushed
            end()
            await log.flush()
            assert [type(one.event) for one in await anext(following)][:2] == [e.TextDelta, e.TextDone]
        log.batcher = DeltaBatcher(beat_s=0.0)
        log.say(log.next_segment(), "hi")
        log.emit(done)
        assert [type(one.event) for one in await anext(following)] == [e.TextDelta, e.TextDone]
    await store.close()


async def test_the_start_of_a_call_is_written_with_its_first_words_or_after_a_beat() -> None:
    """P2: whoever waits for it to be on disk waits for neither."""
    store = MemoryStore()
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
    started = e.CallStarted(at_ms=1, run_id="r", call_id="c", turn=1)
    async with RunLog(store, SystemClock(), run=("s", "r"), fence=await store.claim("s")) as log:
        log.batcher = DeltaBatcher(beat_s=NEVER_S)
        following = aiter(store.follow("s", after=1))
        log.emit(started)
        for _ in range(10):
            await asyncio.sleep(0)
        assert await store.last_seq("s") == 1
        log.say(1, "hello")
        assert [type(record.event) for record in await anext(following)] == [e.CallStarted, e.TextDelta]
        log.emit(started)
        await log.flush()
        assert [type(record.event) for record in await anext(following)] == [e.CallStarted]
        log.batcher = DeltaBatcher(beat_s=0.0)
        log.emit(started)
        assert [type(record.event) for record in await anext(following)] == [e.CallStarted]
    await store.close()
