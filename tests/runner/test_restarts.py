"""Restarts: what is suspected of crashing the server and what is not, and what a quiet session costs."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.world import Effect, World, asks_about, ending, process
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait
from holdfast.folds.rows import RunRow
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.asks import Answered, ApprovalVerdict
from holdfast.runner.crash_history import CRASHES_MAX, NOTE, CrashHistory
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.runner.owner import RESUMPTIONS_MAX, SUSPECT_FROM
from holdfast.runner.owner_resources import EVENTS_MAX, SharedFolds
from holdfast.runner.supervisor import RunnerLimits
from holdfast.supervision import SAMPLES_KEPT, STUCK_S, LoopLag
from holdfast.tools.shell.scope import find_marked
from runner.program import configure, program
from serving import PATIENT, AsksAbout
from stores import MemoryStore
from tools.calls import until


@asynccontextmanager
async def crashing(
    chaos: ChaosServer, disk: MemoryDisk, *tools: Tool, judge: AsksAbout | None = None
) -> AsyncGenerator[World]:
    """A process that dies at the end: what it does from then on reaches no disk."""
    store = MemoryStore(disk)
    async with process(chaos, *tools, store=store, patience=PATIENT, judge=judge or AsksAbout()) as world:
        yield world
        await store.close()


async def sent(world: World, session_id: str = "s", text: str = "hi") -> str:
    sent = await world.inbox.send(session_id, IncomingMessage(text=text))
    assert isinstance(sent, Sent)
    return sent.run_id


def queued(run_id: str) -> list[e.Input]:
    """A message and its run, which no process has begun."""
    said = e.MessageAccepted(at_ms=1, message_id=f"message of {run_id}", text="hi", mode="queue")
    return [said, e.RunQueued(at_ms=1, run_id=run_id, message_id=said.message_id)]


def resumptions(log: list[e.Event]) -> list[str]:
    return [event.after for event in log if isinstance(event, e.RunResumed)]


async def events(world: World, session_id: str = "s") -> list[e.Event]:
    return [record.event for record in await world.log(session_id)]


async def ends_as_a_crash_loop(chaos: ChaosServer, disk: MemoryDisk) -> None:
    """The next process gives the session's run up."""
    async with crashing(chaos, disk) as world:
        end = ending(await world.until("s", e.RunEnded))
        assert (end.outcome, end.cause) == ("interrupted", "crash_loop")
        assert resumptions(await events(world)) == ["crash"] * RESUMPTIONS_MAX


async def test_a_run_that_completes_nothing_in_three_resumptions_is_interrupted_as_a_crash_loop() -> None:
    """P4, P6: it does not take the server down for ever, and says what it ended of."""
    disk = MemoryDisk()
    async with ChaosServer([Hang()], after_last="repeat") as chaos:
        for life in range(RESUMPTIONS_MAX + 1):
            async with crashing(chaos, disk) as world:
                if not life:
                    await sent(world)
                await chaos.seen.until_body(life + 1)
        await ends_as_a_crash_loop(chaos, disk)
        assert len(chaos.seen.requests) == RESUMPTIONS_MAX + 1


async def test_orderly_restarts_are_no_crashes_however_many() -> None:
    """P6: who is stopped again and again in mid-answer by an operator goes on all the same."""
    disk = MemoryDisk()
    async with ChaosServer(*[[Hang()]] * 6, [Say("at last")]) as chaos:
        for life in range(6):
            async with process(chaos, store=MemoryStore(disk), patience=PATIENT) as world:
                if not life:
                    await sent(world)
                await chaos.seen.until_body(life + 1)
        async with process(chaos, store=MemoryStore(disk), patience=PATIENT) as world:
            ended = (await world.until("s", e.RunEnded))[-1].event
            assert isinstance(ended, e.RunEnded)
            assert ended.outcome == "completed"
            assert resumptions(await events(world)) == ["restart"] * 6


async def test_a_crash_counts_whoever_opens_the_store_before_the_run_goes_on() -> None:
    """P4, P6: a command that serves the store for a moment, and ends well, makes no restart of a crash."""
    disk, asked = MemoryDisk(), RunnerLimits(resume_runs="asked")
    async with ChaosServer([Hang()], after_last="repeat") as chaos:
        for life in range(RESUMPTIONS_MAX + 1):
            async with crashing(chaos, disk) as world:
                if not life:
                    await sent(world)
                await chaos.seen.until_body(life + 1)
            for _ in range(2):
                async with process(chaos, store=MemoryStore(disk), limits=asked):
                    pass
        await ends_as_a_crash_loop(chaos, disk)


async def test_a_crash_of_another_process_does_not_count_for_a_run_that_it_never_took_up() -> None:
    """P6: what was let down in good order goes on after a restart, whatever crashed meanwhile."""
    disk = MemoryDisk()
    async with ChaosServer([Hang()], [Say("at last")]) as chaos:
        async with process(chaos, store=MemoryStore(disk), patience=PATIENT) as world:
            await sent(world)
            await chaos.seen.until_body(1)
        store = MemoryStore(disk)
        async with process(chaos, store=store, limits=RunnerLimits(resume_runs="asked")):
            await store.close()
        async with process(chaos, store=MemoryStore(disk), patience=PATIENT) as world:
            await world.until("s", e.RunEnded)
            assert resumptions(await events(world)) == ["restart"]


async def test_many_crashes_are_told_in_bounded_words_and_the_newest_are_known() -> None:
    notes = MemoryStore(MemoryDisk())
    for life in range(3 * CRASHES_MAX):
        crash_history = CrashHistory()
        await crash_history.load(notes, 10 * life)
        await crash_history.begin(notes, 10 * life)
        if life % 2:
            await crash_history.end(notes)
    told = await notes.note(NOTE)
    assert told is not None
    assert len(told) < 40 * CRASHES_MAX
    crash_history = CrashHistory()
    await crash_history.load(notes, 30 * CRASHES_MAX)
    newest = 10 * (3 * CRASHES_MAX - 2)
    assert [crash_history.cause_of(newest + at) for at in (-1, 0, 9, 10, 1000)] == [
        "restart",
        "crash",
        "crash",
        "restart",
        "restart",
    ]


async def test_a_clock_that_was_set_back_makes_no_restart_of_a_crash() -> None:
    notes = MemoryStore(MemoryDisk())
    await CrashHistory().begin(notes, 1000)
    crash_history = CrashHistory()
    await crash_history.load(notes, 500)
    assert [crash_history.cause_of(at) for at in (999, 1000, 1200)] == ["restart", "crash", "crash"]


async def test_a_life_that_heard_nothing_of_those_before_it_says_nothing_at_its_end() -> None:
    """P6: a store that takes no writes until the server ends does not make a restart of a crash."""
    notes = MemoryStore(MemoryDisk())
    await CrashHistory().begin(notes, 1000)
    await CrashHistory().end(notes)
    crash_history = CrashHistory()
    await crash_history.load(notes, 2000)
    assert crash_history.cause_of(1500) == "crash"


async def test_a_stop_that_comes_before_the_first_step_of_a_run_ends_it() -> None:
    """P3, P5: a start finds a queued run, and is about to begin it when the stop lands on the log."""

    class StopsWhatIsRead(MemoryStore):
        """Its first reader learns of the stop only by following the log."""

        was_read = False

        async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
            found = await super().read(session_id, after=after, limit=limit)
            if not self.was_read:
                self.was_read = True
                await self.append(session_id, [e.StopRequested(at_ms=1, run_id="r", cause="user_stop")])
            return found

    store = StopsWhatIsRead(MemoryDisk())
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e"), *queued("r")])
    async with ChaosServer() as chaos, process(chaos, store=store) as world:
        assert ending(await world.until("s", e.RunEnded)).outcome == "cancelled"
        assert not chaos.seen.requests


async def test_what_a_stopped_run_left_is_ended_before_the_next_one_begins() -> None:
    """P5: one run at a time, also if a crash came between a stop and its end."""
    store = MemoryStore(MemoryDisk())
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e"), *queued("first")])
    await store.append_run("s", [e.RunStarted(at_ms=1, run_id="first")], fence=await store.claim("s"))
    stop = e.StopRequested(at_ms=1, run_id="first", cause="user_stop")
    await store.append("s", [stop, *queued("second")])
    async with ChaosServer([Say("ok")]) as chaos, process(chaos, store=store) as world:
        log = [record.event for record in await world.until("s", e.RunEnded, times=2)]
    ends = [event.outcome for event in log if isinstance(event, e.RunEnded)]
    assert ends == ["cancelled", "completed"]
    kinds = [type(event) for event in log]
    assert kinds.index(e.RunEnded) < len(kinds) - 1 - kinds[::-1].index(e.RunStarted)


async def test_a_run_that_waits_for_a_person_is_not_suspected_of_crashes() -> None:
    """P8: its approval stays open, under the same id, through any number of them."""
    disk, done = MemoryDisk(), list[str]()
    tool, judge = Effect("one", done), asks_about("one")
    asked: e.ApprovalAsked | None = None
    async with ChaosServer([CallTool("one")], [Say("ok")]) as chaos:
        for life in range(RESUMPTIONS_MAX + 2):
            async with crashing(chaos, disk, tool, judge=judge) as world:
                if not life:
                    await sent(world)
                asked = next(
                    record.event
                    for record in await world.until("s", e.ApprovalAsked)
                    if isinstance(record.event, e.ApprovalAsked)
                )
                await world.until("s", e.RunResumed, times=life)
        assert asked is not None
        async with crashing(chaos, disk, tool, judge=judge) as world:
            answer = ApprovalVerdict("once")
            assert await world.inbox.answer(asked.approval_id, answer) == Answered(asked.approval_id)
            ended = (await world.until("s", e.RunEnded))[-1].event
            assert isinstance(ended, e.RunEnded)
            assert (ended.outcome, done) == ("completed", ["one {}"])


async def test_suspects_are_tried_one_at_a_time_and_the_rest_at_once() -> None:
    """P10: after the second crash with nothing completed a run is tried alone; others need not wait."""
    disk = MemoryDisk()
    async with ChaosServer([Hang()], after_last="repeat") as chaos:
        asked = 0
        for life in range(3):
            async with crashing(chaos, disk) as world:
                for name in ("a", "b", "c"):
                    if not life:
                        await sent(world, name)
                asked += 3
                await chaos.seen.until_body(asked)
        async with crashing(chaos, disk) as world:
            innocent = await sent(world, "innocent")
            await chaos.seen.until_body(asked + 2)
            tried = [
                name
                for name in ("a", "b", "c")
                if len(resumptions(await events(world, name))) == RESUMPTIONS_MAX
            ]
            assert len(tried) == 1, tried
            suspect = (await world.inbox.state(tried[0])).current_run
            assert suspect is not None
            assert await world.inbox.stop(tried[0], suspect.run_id)
            await chaos.seen.until_body(asked + 3)
            assert (await world.inbox.state("innocent")).runs[innocent].status == "running"


async def in_crashes(disk: MemoryDisk, *session_ids: str, since: Sequence[e.Event] = ()) -> None:
    """Logs of runs that were under way in as many crashes as make them suspects; then came `since`."""
    store = MemoryStore(disk)
    for session_id in session_ids:
        run_id = f"run_{session_id}"
        created = e.SessionCreated(at_ms=1, epoch="e")
        await store.append(session_id, [created, *queued(run_id)])
        fence = await store.claim(session_id)
        resumed = [e.RunResumed(at_ms=1, run_id=run_id, after="crash")] * SUSPECT_FROM
        started = e.RunStarted(at_ms=1, run_id=run_id)
        given = e.MessageDispatched(at_ms=1, run_id=run_id, message_id=f"message of {run_id}")
        after = [replace(event, run_id=run_id) for event in since]
        await store.append_run(session_id, [given, started, *resumed, *after], fence=fence)
    await store.close()


async def test_a_suspect_says_for_what_it_waits_and_at_which_place() -> None:
    """P3: nobody takes it for a run that works."""
    disk = MemoryDisk()
    await in_crashes(disk, "a", "b", "c")
    async with ChaosServer([Hang()], after_last="repeat") as chaos, crashing(chaos, disk) as world:
        await chaos.seen.until_body(1)
        turns = [world.supervisor.resources.queue_position(f"run_{name}") for name in ("a", "b", "c")]
        assert sorted(turn.position for turn in turns if turn) == [1, 2]
        assert all("crashed 2 times in a row" in turn.why for turn in turns if turn)
        waiting = next(name for name, turn in zip("abc", turns, strict=True) if turn and turn.position == 1)
        owner = world.supervisor.owner(waiting)
        assert owner is not None
        line = owner.logs[f"run_{waiting}"].live_line()
        assert line.startswith("queued · place 1 · the server crashed")
        assert await world.inbox.stop(waiting, f"run_{waiting}")
        assert ending(await world.until(waiting, e.RunEnded)).outcome == "cancelled"
        assert (
            sum(
                world.supervisor.resources.queue_position(f"run_{name}") is not None
                for name in ("a", "b", "c")
            )
            == 1
        )


async def test_a_suspect_that_completed_something_since_the_crash_goes_on_beside_the_others() -> None:
    """P10: a finished turn or tool is what tells it from a run that brings the server down."""
    disk = MemoryDisk()
    done = [
        e.CallStarted(at_ms=1, run_id="", call_id="c", turn=1),
        e.CallEnded(at_ms=1, run_id="", call_id="c", finish="failed"),
    ]
    await in_crashes(disk, "suspect")
    await in_crashes(disk, "a", "b", since=done)
    async with ChaosServer([Hang()], after_last="repeat") as chaos, crashing(chaos, disk) as world:
        await chaos.seen.until_body(3)
        assert [
            world.supervisor.resources.queue_position(f"run_{name}") for name in ("a", "b", "suspect")
        ] == [None] * 3


async def test_one_suspect_that_never_completes_anything_keeps_the_others_waiting_for_a_while_only() -> None:
    """P3: the wait for it has an end."""
    disk = MemoryDisk()
    await in_crashes(disk, "a", "b", "c")
    limits = RunnerLimits(suspect_alone_s=0.0)
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        process(chaos, store=MemoryStore(disk), patience=PATIENT, limits=limits),
    ):
        await chaos.seen.until_body(3)  # all three are asked, although none of them ends
        assert chaos.seen.requests_seen == 3


async def test_a_message_to_a_quiet_session_reads_no_log_before_it_is_taken() -> None:
    """P10: however long the conversation is, its owner folds it afterwards, and the next one from memory."""
    reads: list[int] = []

    class CountingStore(MemoryStore):
        async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
            reads.append(after)
            return await super().read(session_id, after=after, limit=limit)

    store = CountingStore(MemoryDisk())
    async with ChaosServer([Say("yes")], after_last="repeat") as chaos, process(chaos, store=store) as world:
        for nth in range(1, 4):
            reads.clear()
            await sent(world)
            assert reads == []
            await world.until("s", e.RunEnded, times=nth)
            await asyncio.sleep(0)
        state = await world.inbox.state("s")
        assert len(state.runs) == 3
        # Each owner went on from where the last one had read.
        assert 0 not in reads


def test_what_is_kept_of_quiet_sessions_is_bounded() -> None:
    folds = SharedFolds(sessions_max=3, events_max=100, bytes_max=1_000)
    in_use = folds.of("a")
    for name in "bcad":
        folds.of(name)
    assert [name for name in "abcd" if folds.known(name)] == ["a", "c", "d"]
    for name in "efg":
        folds.of(name)
    assert folds.of("a") is in_use, "there is one fold for all who use it"
    renamed = e.SessionRenamed(at_ms=1, title="t")
    for name, record in (
        ("long", Record("long", 99, body=b"", decoded=renamed)),
        ("longer", Record("longer", 2, body=b"", decoded=renamed)),
        ("large", Record("large", 1, body=bytes(999), decoded=renamed)),
        ("larger", Record("larger", 1, body=bytes(2), decoded=renamed)),
    ):
        folds.of(name).apply([record], after=0)
        folds.count(name)
    assert [name for name in ("long", "longer", "large", "larger") if folds.known(name)] == ["larger"]
    folds.forget("larger")
    assert folds.known("larger") is None


async def test_a_log_counts_as_soon_as_it_is_read() -> None:
    """P10: a look at each of many long conversations does not keep all of them."""

    class LongLog(MemoryStore):
        async def last_seq(self, session_id: str) -> int:
            return EVENTS_MAX if session_id == "long" else await super().last_seq(session_id)

        async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
            if session_id != "long":
                return await super().read(session_id, after=after, limit=limit)
            renamed = e.SessionRenamed(at_ms=1, title="long")
            return [Record("long", EVENTS_MAX, body=b"", decoded=renamed)]

    async with ChaosServer([Say("yes")]) as chaos, process(chaos, store=LongLog()) as world:
        await sent(world, "short")
        await world.until("short", e.RunEnded)
        while world.supervisor.owner("short") is not None:  # noqa: ASYNC110  # it goes by itself, and rings no bell
            await asyncio.sleep(0)
        await world.supervisor.view("short")
        assert world.supervisor.resources.folds.known("short") is not None
        await world.supervisor.view("long")
        gc.collect()  # the owner that is gone still knows it
        assert world.supervisor.resources.folds.known("short") is None
        assert world.supervisor.resources.folds.known("long") is not None
        await world.supervisor.view("short")
        assert world.supervisor.resources.folds.known("long") is None


async def test_a_start_that_fails_leaves_no_task_behind() -> None:
    class Damaged(MemoryStore):
        async def runs(self, query: RunQuery) -> Sequence[RunRow]:
            raise StoreDamaged(f"integrity check failed at {query}")

    before = asyncio.all_tasks()
    async with ChaosServer() as chaos:
        with pytest.raises(StoreDamaged):
            async with process(chaos, store=Damaged()):
                pass
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


def test_a_loop_that_was_held_up_is_noticed_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """P9: quiet as long as it is on time."""
    lag = LoopLag()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            lag.record(0.01)
        assert (caplog.records, lag.worst_s) == ([], 0.01)
        lag.record(STUCK_S + 0.2)
    (line,) = caplog.messages
    assert line.startswith("the event loop was stuck for 0.70 s")
    assert (lag.stuck, lag.last_s, lag.worst_s) == (1, STUCK_S + 0.2, STUCK_S + 0.2)
    for _ in range(SAMPLES_KEPT):
        lag.record(0.0)
    assert lag.worst_s == 0.0


async def test_what_a_crashed_server_left_running_is_ended_before_the_run_goes_on(tmp_path: Path) -> None:
    """P5, P6: the call is unknown, its process is dead, and the run goes on."""
    command = {"command": "echo begun > begun; sleep 600"}
    async with ChaosServer([CallTool("shell", command)], [Say("ok")]) as chaos:
        # In the sandbox, nothing outlives the server.
        await asyncio.to_thread(configure, tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            run_id = await server.start("work")
            await until((tmp_path / "work" / "begun").exists)
            server.process.kill()
            await server.ended()
        left = await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
        assert left
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
    assert not await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
    (ended,) = [frame.data for frame in seen if frame.data["type"] == "tool.ended"]
    assert ended["ending"] == "unknown"
    assert (seen[-1].data["type"], seen[-1].data["outcome"]) == ("run.ended", "completed")


async def test_what_a_crashed_server_left_running_is_ended_even_if_its_run_does_not_go_on(
    tmp_path: Path,
) -> None:
    """P5, P6: a run that a restart interrupts leaves no process behind either."""
    command = {"command": "echo begun > begun; sleep 600"}
    async with ChaosServer([CallTool("shell", command)]) as chaos:
        # In the sandbox, nothing outlives the server.
        await asyncio.to_thread(configure, tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            run_id = await server.start("work", on_restart="interrupt")
            await until((tmp_path / "work" / "begun").exists)
            server.process.kill()
            await server.ended()
        assert await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
        async with program(tmp_path) as server:
            seen = await server.events(run_id)
            assert not await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
    assert (seen[-1].data["type"], seen[-1].data["outcome"]) == ("run.ended", "interrupted")


async def test_a_run_in_a_session_that_is_at_work_takes_one_place_and_no_more() -> None:
    """P10: however the storing of a run and its owner's look at it fall together, no place is lost."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("x")], after_last="repeat") as chaos,
        process(chaos, patience=PATIENT, limits=RunnerLimits(runs_max=2)) as world,
    ):
        for nth in range(30):
            await sent(world, f"s{nth % 3}")
        gate.open()
        for nth in range(3):
            await world.until(f"s{nth}", e.RunEnded, times=10)
        with ExitStack() as places:
            held = [
                places.enter_context(world.supervisor.resources.slots.reserve(waiting_max=3))
                for _ in range(6)
            ]
        assert held == [True] * 5 + [False]
