"""What people say while a run is under way, at every moment of it: heard once, never lost, never doubled."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Literal, NoReturn

import msgspec
import pytest
from msgspec.structs import replace

from agent.world import CrashingStore, Effect, World, either, process
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Hang, Say, Script, SeenRequest
from holdfast.folds import session, transcript
from holdfast.folds.entries import Person
from holdfast.folds.inputs import MessageState
from holdfast.interfaces.journal import StoreLocked
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import Budget, RunSettings
from serving import PATIENT, served, target_of
from stores import MemoryStore

STEER = "rather left"


def script(request: SeenRequest) -> Script:
    """A tool first, then a word; the same however often it was asked before."""
    messages = msgspec.convert((request.body or {})["messages"], list[dict[str, object]])
    if not any(message["role"] == "tool" for message in messages):
        return [Say("let me see"), CallTool("one")]
    return [Say("done")]


async def steered_at(world: World, nth: int, *, mode: Literal["steer", "redirect"]) -> bool:
    """Say something when the log has its nth event; False if the run was over by then."""
    sent = await world.inbox.send("s", IncomingMessage(text="go"))
    assert isinstance(sent, Sent)
    async for records in world.store.follow("s"):
        if records[-1].seq >= nth or any(isinstance(record.event, e.RunEnded) for record in records):
            break
    steer = await world.inbox.steer("s", sent.run_id, message=IncomingMessage(text=STEER), mode=mode)
    return isinstance(steer, Sent)


async def settled(world: World) -> None:
    """Wait until every run has ended and nothing waits."""
    async for _ in world.store.follow("s"):
        state = await world.inbox.state("s")
        if not state.open_runs and not state.inbox.waiting():
            return


@pytest.mark.parametrize("mode", ["steer", "redirect"])
async def test_what_is_said_at_any_moment_is_in_the_transcript_exactly_once(
    mode: Literal["steer", "redirect"],
) -> None:
    """P2: said at every event of a run: this run hears it, or the next one does."""
    for nth in count(3):
        done: list[str] = []
        async with ChaosServer(choose=script) as chaos, process(chaos, Effect("one", done)) as world:
            was_taken = await steered_at(world, nth, mode=mode)
            await settled(world)
            log = [(record.seq, record.event) for record in await world.log("s")]
        said = Counter(
            entry.message.text for entry in transcript.fold(log).entries if isinstance(entry, Person)
        )
        assert said == {"go": 1, STEER: 1} if was_taken else {"go": 1}, nth
        state = session.fold(log)
        assert {message.state for message in state.inbox.messages.values()} == {MessageState.DISPATCHED}
        assert all(run.outcome == "completed" for run in state.runs.values()), nth
        assert len(done) == 1, nth
        if not was_taken:
            assert nth > 12
            return


async def test_an_edit_that_came_in_time_is_said_to_have_even_if_the_message_is_taken_up_at_once() -> None:
    """P2: whoever hears that it came too late would say the same again."""
    run_ids: list[str] = []

    class TakesUp(MemoryStore):
        async def append(self, session_id: str, inputs: Sequence[e.Input], **rest: Any) -> Any:
            result = await super().append(session_id, inputs, **rest)
            if isinstance(inputs[0], e.MessageEdited):
                message_id = inputs[0].message_id
                taken = e.MessageDispatched(at_ms=1, run_id=run_ids[-1], message_id=message_id)
                await self.append_run("s", [taken], fence=await self.claim("s"))
            return result

    async with ChaosServer([Hang()]) as chaos, process(chaos, store=TakesUp(), patience=PATIENT) as world:
        await world.inbox.send("s", IncomingMessage(text="first"))
        await chaos.seen.until_body(1)
        second = await world.inbox.send("s", IncomingMessage(text="second"))
        assert isinstance(second, Sent)
        run_ids.append(second.run_id)
        edited = e.MessageEdited(at_ms=1, message_id=second.message_id, text="other words")
        changed = await world.inbox.change_message("s", edited)
        assert changed is not None
        assert (changed.text, changed.state) == ("other words", MessageState.DISPATCHED)
        assert await world.inbox.change_message("s", edited) is None


async def test_twenty_sends_under_one_id_are_one_run() -> None:
    """P2: all of them get the same answer, and the model is asked once."""
    async with ChaosServer([Say("once")]) as chaos, served(target_of(chaos, patience=PATIENT)) as server:
        key = {"Idempotency-Key": "the same"}
        body = {"input": "hi", "session_id": "s"}
        told = await asyncio.gather(*[server.post("/v1/runs", body, **key) for _ in range(20)])
        assert {status for status, _ in told} == {202}
        (run_id,) = {answer["run_id"] for _, answer in told}
        assert (await server.ended(run_id))["output"] == "once"
        _, listed = await server.get("/v1/runs?session_id=s")
        assert [run["run_id"] for run in listed["data"]] == [run_id]
        assert len(chaos.seen.requests) == 1


async def test_two_first_messages_of_one_new_session_at_the_same_moment_are_both_taken() -> None:
    """P2: whichever creates the session, the other one finds it there."""
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        runs = await asyncio.gather(*[server.start(f"hi {nth}", session_id="new") for nth in range(5)])
        for run_id in runs:
            assert (await server.ended(run_id))["status"] == "completed"


class LockedAfterTheEnd(MemoryStore):
    """A store that waits with a run's ending until someone has steered it, and is locked right after it."""

    def __init__(self) -> None:
        super().__init__()
        self.ending, self.told = asyncio.Event(), asyncio.Event()
        self.refused = 0

    async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        if isinstance(events[-1], e.RunEnded):
            self.ending.set()
            await self.told.wait()
        self._lock(events)
        return await super().append_run(session_id, events, **rest)

    async def append(self, session_id: str, inputs: Sequence[e.Input], **rest: Any) -> Any:
        self._lock(inputs)
        return await super().append(session_id, inputs, **rest)

    def _lock(self, events: Sequence[e.Event]) -> None:
        if isinstance(events[0], e.RunQueued) and not self.refused:
            self.refused += 1
            raise StoreLocked("a backup has the file")


async def test_what_came_too_late_for_its_run_gets_the_next_one_even_if_the_store_is_locked_then() -> None:
    """P2: it was accepted, so the store is waited for."""
    store = LockedAfterTheEnd()
    async with ChaosServer([Say("one")], [Say("two")]) as chaos, process(chaos, store=store) as world:
        sent = await world.inbox.send("s", IncomingMessage(text="go"))
        assert isinstance(sent, Sent)
        await store.ending.wait()
        assert isinstance(
            await world.inbox.steer("s", sent.run_id, message=IncomingMessage(text=STEER)), Sent
        )
        store.told.set()
        log = await world.until("s", e.RunEnded, times=2)
    assert store.refused == 1
    said = transcript.fold((record.seq, record.event) for record in log)
    assert [entry.message.text for entry in said.entries if isinstance(entry, Person)] == ["go", STEER]


async def test_what_came_too_late_for_its_run_is_carried_out_as_that_run_was() -> None:
    """P2: in its workspace, with its model and its budget; but nobody is connected who could go away."""
    store = LockedAfterTheEnd()
    asked_for = RunSettings(instructions="be brief", workspace="/there", budget=Budget(turns=7))
    settings = replace(asked_for, on_disconnect="cancel")
    async with ChaosServer([Say("one")], [Say("two")]) as chaos, process(chaos, store=store) as world:
        sent = await world.inbox.send("s", IncomingMessage(text="go", settings=settings))
        assert isinstance(sent, Sent)
        await store.ending.wait()
        await world.inbox.send("s", IncomingMessage(text="something else"))
        assert isinstance(
            await world.inbox.steer("s", sent.run_id, message=IncomingMessage(text=STEER)), Sent
        )
        store.told.set()
        log = await world.until("s", e.RunEnded, times=2)
    queued = [record.event for record in log if isinstance(record.event, e.RunQueued)]
    assert [one.settings for one in queued] == [settings, RunSettings(), asked_for]


class SteeredAtTheEnd(CrashingStore):
    """A store that waits with an ending until its run was steered, and dies at some append after that."""

    def __init__(self, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
        super().__init__(disk, CrashPoint(10_000), after=after)
        self.ending, self.told = asyncio.Event(), asyncio.Event()
        self._dying = crash.around(super().append_run, when="after" if after else "before")
        self.append_run = self._append_run  # pyright: ignore[reportAttributeAccessIssue]

    async def _append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        if isinstance(events[-1], e.RunEnded):
            self.ending.set()
            await self.told.wait()
        if self.told.is_set():
            return await self._dying(session_id, events, **rest)
        return await MemoryStore.append_run(self, session_id, events, **rest)


async def steered_and_dead(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
    """A process that is steered at the very end of a run, and dies at some append after that."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = SteeredAtTheEnd(disk, crash, after=after)
    with suppress(Crashed, BaseExceptionGroup):
        async with process(chaos, store=store) as world:
            sent = await world.inbox.send("s", IncomingMessage(text="go"))
            assert isinstance(sent, Sent)
            await store.ending.wait()
            assert isinstance(
                await world.inbox.steer("s", sent.run_id, message=IncomingMessage(text=STEER)), Sent
            )
            store.told.set()
            over = asyncio.create_task(settled(world))
            await either(over, asyncio.create_task(died.wait()))


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_what_came_too_late_for_its_run_gets_one_after_a_crash_at_any_append(*, after: bool) -> None:
    """P2, P6: the next start finds it, though no run is open, and nobody has to write again."""
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer([Say("ok")], after_last="repeat") as chaos:
            await steered_and_dead(chaos, disk, crash, after=after)
            async with asyncio.timeout(60), process(chaos, store=MemoryStore(disk)) as world:
                await settled(world)
                log = [(record.seq, record.event) for record in await world.log("s")]
        said = [entry.message.text for entry in transcript.fold(log).entries if isinstance(entry, Person)]
        assert said == ["go", STEER], nth
        assert all(run.outcome == "completed" for run in session.fold(log).runs.values()), nth
        if not crash.has_crashed:
            assert nth > 3
            return
