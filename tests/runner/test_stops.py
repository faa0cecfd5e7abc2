"""A stop in each state of a run, at each moment: it ends once, nothing goes on, the next message works."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from agent.world import Effect, asks_about, process
from holdfast import events as e
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    ClosedBy,
    Gate,
    Hang,
    Say,
    Script,
    SeenRequest,
    Wait,
    overloaded,
    rate_limited_s,
    silent_port,
)
from holdfast.events import Event
from holdfast.folds import session
from holdfast.interfaces.journal import IfAskOpen, IfRunOpen, Store
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.runner.supervisor import RunnerLimits
from holdfast.targets import RetryLimits, Target
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.process_table import table
from holdfast.tools.shell.scope import find_marked
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, served, target_of
from stores import MemoryStore, SqliteStore
from tools.calls import shell

RACES = 120
LONG = "an old story " * 800
SLOW_TO_TRY_AGAIN = RetryLimits(backoff_base_s=600, backoff_max_s=600)


@dataclass(frozen=True)
class State:
    """How a run gets into a state, and how one knows that it is there."""

    script: Script
    reached: str  # the native event after which it is in the state
    asked: int = 1  # how often the model is asked up to then
    setting: Callable[[], Setting] = Setting
    hangs: bool = False  # the model has not said all that it has to say
    retry: RetryLimits | None = None
    before: tuple[str, Script] | None = None  # an earlier message and its answer
    after: Callable[[Served, str], Awaitable[None]] | None = None  # what lets the next message through


async def try_now(server: Served, run_id: str) -> None:
    """A gate that one run found closed is closed for the next one too, until someone opens it."""
    await until_native(server, run_id, "call.gated")
    assert (await server.post(f"/v1/runs/{run_id}/gate", {"action": "try_now"}))[0] == 200


def asking() -> Setting:
    return Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))


STATES = {
    "waiting for the first byte": State([Hang()], "attempt.started", hangs=True),
    "streaming": State([Say("hal"), Hang()], "text.delta", hangs=True),
    "backing off": State([overloaded()], "attempt.failed", retry=SLOW_TO_TRY_AGAIN),
    "gated": State([rate_limited_s(3600)], "call.gated", after=try_now),
    "with an open approval": State(
        [CallTool("touch", {})],
        "approval.asked",
        setting=asking,
    ),
    "with an open question": State([CallTool("ask_user", {"text": "which?"})], "question.asked"),
    "compacting": State(
        [Hang()],
        "attempt.started",
        asked=2,
        hangs=True,
        setting=partial(Setting, context_window=3_000),
        before=(LONG, [Say("I see")]),
    ),
}


async def until_native(server: Served, run_id: str, kind: str) -> None:
    async for frame in server.frames(run_id, view="native"):
        if frame.data.get("type") == kind:
            return
    raise AssertionError(f"{kind} never came")


async def stopped(server: Served, run_id: str) -> None:
    """Stop it and see how it ends."""
    status, answer = await server.post(f"/v1/runs/{run_id}/stop")
    assert (status, answer) == (200, {"run_id": run_id, "status": "stopping"})
    shown = await server.ended(run_id)
    assert (shown["status"], shown["cause"]) == ("cancelled", "user_stop")


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
async def test_a_stop_in_any_state_ends_the_run_and_the_next_message_works(state: State) -> None:
    """P5, S003-1: cancelled(user_stop), no further request at the model, and the session goes on."""
    scripts = [*([state.before[1]] if state.before else []), state.script]
    # A summary is asked for again by the next message, since the first one never came.
    answers: Sequence[Script] = [[Say("next")]] * (2 if state.before else 1)
    async with ChaosServer(*scripts, *answers) as chaos:
        target = target_of(chaos, patience=PATIENT)
        target = target if state.retry is None else changed(target, retry=state.retry)
        async with served(target, setting=state.setting()) as server:
            if state.before:
                await server.ended(await server.start(state.before[0], session_id="s"))
            run_id = await server.start(session_id="s")
            await until_native(server, run_id, state.reached)
            await chaos.seen.until_body(state.asked)
            await stopped(server, run_id)
            if state.hangs:
                assert await chaos.seen.until_closed(state.asked) in {ClosedBy.PEER, ClosedBy.PEER_RESET}
            following = await server.start("go on", session_id="s")
            if state.after is not None:
                await state.after(server, following)
            assert (await server.ended(following))["output"] == "next"
            assert len(chaos.seen.requests) == state.asked + len(answers)


async def test_an_attempt_says_what_ended_it() -> None:
    """P9: a stop, or a person who wants something else; never a fault of the network."""
    async with (
        ChaosServer([Say("left"), Hang()], [Say("right"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start(session_id="s")
        await until_native(server, run_id, "text.delta")
        redirect = {"message": "the other way", "mode": "redirect"}
        assert (await server.post(f"/v1/runs/{run_id}/messages", redirect))[0] == 200
        await chaos.seen.until_body(2)
        await stopped(server, run_id)
        frames = await server.all_frames(run_id, view="native")
        failed = [frame.data for frame in frames if frame.data["type"] == "attempt.failed"]
        assert [one["failure"]["text"] for one in failed] == ["stopped: redirected", "stopped: user_stop"]
        assert {one["close_reason"] for one in failed} == {"cancel"}


async def test_a_stop_while_connecting() -> None:
    """P5: nobody ever took the connection; another process, with a better target, takes the next message."""
    store = MemoryStore()
    with silent_port() as port:
        target = Target(name="main", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", model="m")
        async with served(patient_with(target), store=store) as server:
            run_id = await server.start(session_id="s")
            await until_native(server, run_id, "attempt.started")
            await stopped(server, run_id)
    async with ChaosServer([Say("next")]) as chaos, served(target_of(chaos), store=store) as server:
        assert (await server.ended(await server.start(session_id="s")))["output"] == "next"
        assert len(chaos.seen.requests) == 1
    await store.close()


def patient_with(target: Target) -> Target:
    return changed(target, patience=changed(PATIENT, connect_s=600))


async def test_a_stop_while_queued() -> None:
    """P5: it never begins; the one before it goes on."""
    async with (
        ChaosServer([Hang()], [Say("next")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        first = await server.start("a", session_id="s")
        await chaos.seen.until_body(1)
        queued = await server.start("b", session_id="s")
        await stopped(server, queued)
        assert (await server.get(f"/v1/runs/{first}"))[1]["status"] == "running"
        await stopped(server, first)
        assert (await server.ended(await server.start("c", session_id="s")))["output"] == "next"
        assert len(chaos.seen.requests) == 2


async def test_a_stop_of_a_run_that_waits_keeps_no_other_waiting() -> None:
    """P3: what is queued behind it has its turn without anybody's word."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("first")], [Say("third")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        await server.start("a", session_id="s")
        await chaos.seen.until_body(1)
        second, third = [await server.start(text, session_id="s") for text in ("b", "c")]
        await stopped(server, second)
        gate.open()
        assert (await server.ended(third))["output"] == "third"


async def test_a_stop_while_a_tool_runs_leaves_no_process_behind(tmp_path: Path) -> None:
    """P5: neither the command nor what it started on the side is alive when the run says cancelled."""
    command = "setsid sleep 600 & sleep 600"
    async with (
        ChaosServer([CallTool("shell", {"command": command})], [Say("next")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT),
            setting=Setting(tools=(shell(Background(tmp_path / "jobs", now_ms=lambda: 1)),)),
        ) as server,
    ):
        run_id = await server.start(session_id="s", workspace=str(tmp_path))
        await until_native(server, run_id, "tool.started")
        while len(await marked(run_id)) < 3:  # noqa: ASYNC110  # /proc rings no bell
            await asyncio.sleep(0.01)
        await stopped(server, run_id)
        assert await marked(run_id) == []
        assert (await server.ended(await server.start(session_id="s")))["output"] == "next"
        assert len(chaos.seen.requests) == 2


async def marked(run_id: str) -> list[int]:
    """The processes of a run that are alive."""
    found = await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
    dead = {row.pid for row in await asyncio.to_thread(table) if row.is_dead}
    return [one.process.pid for one in found if one.process.pid not in dead]


class Meddling:
    """Has an input land just before the nth append of a run, which knows nothing of it yet."""

    def __init__(self, store: Store, nth: int, meddle: Callable[[Store, str], Awaitable[None]]) -> None:
        self._left = nth
        self.happened = False
        append_run = store.append_run

        async def meddled(session_id: str, events: Sequence[Event], **rest: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.happened = True
                await meddle(store, next(event.run_id for event in events if isinstance(event, e.RunEvent)))
            return await append_run(session_id, events, **rest)

        store.append_run = meddled  # pyright: ignore[reportAttributeAccessIssue]


@asynccontextmanager
async def kept(where: str, folder: Path) -> AsyncGenerator[Store]:
    store = MemoryStore() if where == "memory" else await SqliteStore.open(folder / f"{random.random()}.db")
    try:
        yield store
    finally:
        await store.close()


async def stop(store: Store, run_id: str) -> None:
    requested = e.StopRequested(at_ms=1, run_id=run_id, cause="user_stop")
    await store.append("s", [requested], when=[IfRunOpen(run_id)])


async def answer(store: Store, run_id: str) -> None:
    """Allow whatever is open."""
    for ask in await store.open_asks():
        once = e.ApprovalAnswered(at_ms=1, run_id=run_id, approval_id=ask.ask_id, choice="once")
        await store.append("s", [once], when=[IfAskOpen(ask.ask_id)])


async def test_an_answer_that_lands_before_any_append_of_a_stopped_run_breaks_nothing(tmp_path: Path) -> None:
    """P4, P8: the answer came first or the withdrawal did; the run ends once, and nothing is done."""
    for nth in count(1):
        done = list[str]()
        async with (
            kept("memory", tmp_path) as store,
            ChaosServer(
                [CallTool("one"), CallTool("one", {"n": 2})], [Say("done")], after_last="repeat"
            ) as chaos,
            process(chaos, Effect("one", done), store=store, judge=asks_about("one")) as world,
        ):
            meddling = Meddling(store, nth, answer)
            sent = await world.inbox.send("s", IncomingMessage(text="hi"))
            assert isinstance(sent, Sent)
            await world.until("s", e.ApprovalAsked, times=2)
            await world.inbox.stop("s", sent.run_id)
            await world.until("s", e.RunEnded)
            log = await world.log("s")
        run = session.fold((record.seq, record.event) for record in log).runs[sent.run_id]
        assert (run.outcome, done) == ("cancelled", [])
        if not meddling.happened:
            assert nth > 6
            return


async def test_two_retries_at_the_same_moment_leave_no_run_that_never_ends() -> None:
    """P4: the newest one runs; the other one is over."""
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        first = await server.start(session_id="s")
        await server.ended(first)
        told = await asyncio.gather(*[server.post(f"/v1/runs/{first}/retry") for _ in range(4)])
        taken = [answer["run_id"] for status, answer in told if status == 202]
        ended = [(await server.ended(run_id))["status"] for run_id in taken]
        assert ended.count("completed") >= 1
        assert set(ended) <= {"completed", "cancelled"}


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_a_stop_that_lands_before_any_append_of_a_run_ends_it_once(where: str, tmp_path: Path) -> None:
    """P4, P5: what the run had begun by then lands behind the stop, and is legal there."""
    for nth in count(1):
        done = list[str]()
        async with (
            kept(where, tmp_path) as store,
            ChaosServer([Say("let me see"), CallTool("one")], [Say("done")], after_last="repeat") as chaos,
            process(chaos, Effect("one", done), store=store) as world,
        ):
            meddling = Meddling(store, nth, stop)
            await world.inbox.send("s", IncomingMessage(text="hi"))
            await world.until("s", e.RunEnded)
            log = await world.log("s")
            state = session.fold((record.seq, record.event) for record in log)
            (run,) = state.runs.values()
            assert run.outcome in {"cancelled", "completed"}, nth
            assert len(done) <= 1
            await world.inbox.send("s", IncomingMessage(text="again"))
            await world.until("s", e.RunEnded, times=2)
            assert len(state.runs) == 1
        if not meddling.happened:
            assert nth > 8
            return


async def test_stop_against_done_has_one_winner_at_any_moment() -> None:
    """P4: whoever comes first, there is one ending, and a stop that was too late says so."""
    outcomes: set[str | None] = set()
    async with (
        ChaosServer([Say("a short answer")], after_last="repeat") as chaos,
        process(chaos, judge=asks_about()) as world,
    ):

        async def race(seed: int) -> None:
            chance, name = random.Random(seed), f"s{seed}"
            sent = await world.inbox.send(name, IncomingMessage(text="hi"))
            assert isinstance(sent, Sent)
            await world.until(name, chance.choice((e.RunQueued, e.TextDelta, e.RunEnded)))
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            took = await world.inbox.stop(name, sent.run_id)
            await world.until(name, e.RunEnded)
            log = [(record.seq, record.event) for record in await world.log(name)]
            run = session.fold(log).runs[sent.run_id]
            assert run.outcome in ({"completed", "cancelled"} if took else {"completed"})
            assert sum(isinstance(event, e.RunEnded) for _, event in log) == 1
            outcomes.add(run.outcome)

        for first in range(0, RACES, 10):
            await asyncio.gather(*[race(seed) for seed in range(first, first + 10)])
    assert outcomes == {"completed", "cancelled"}


async def test_the_stop_of_a_run_behind_one_that_has_no_slot_yet_keeps_no_other_waiting() -> None:
    """P5: the one before it, and not this one, has its turn next."""
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        return [Wait(gate), Say("held")] if "hold" in str(request.body) else [Say("ok")]

    async with (
        ChaosServer(choose=script) as chaos,
        process(chaos, patience=PATIENT, limits=RunnerLimits(runs_max=1)) as world,
    ):
        await world.inbox.send("other", IncomingMessage(text="hold"))
        await gate.reached()
        sent = [await world.inbox.send("s", IncomingMessage(text=text)) for text in "abc"]
        second = sent[1]
        assert isinstance(second, Sent)
        assert await world.inbox.stop("s", second.run_id)
        gate.open()
        log = await world.until("s", e.RunEnded, times=3)
    assert not any(isinstance(record.event, e.QueuePaused) for record in log)
