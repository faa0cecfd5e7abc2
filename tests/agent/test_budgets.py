"""Budgets: each part of one ends the run, in the middle of its work if it must, and says what to do."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from agent.world import Effect, answer, asks_about, ending, process, send, tool_ends
from holdfast import events as e
from holdfast.agent.budgets import run_until
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import ToolCall, ToolResult
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.model_events import TokensUsed
from holdfast.models.call_deps import Prices
from holdfast.runner.asks import Answered, ApprovalVerdict
from holdfast.targets import Target
from holdfast.values import Budget
from serving import PATIENT
from stores import MemoryStore

FIVE_MINUTES = Budget(minutes=5)


@dataclass(slots=True)
class LeapingClock(SystemClock):
    """The machine's clock, but minutes pass when the test says so; whoever sleeps waits for that."""

    ahead_ms: int = 0
    set_ms: int = 0  # by how much somebody has set the wall clock
    leapt: asyncio.Event = field(default_factory=asyncio.Event)
    sleepers: int = 0

    def now_ms(self) -> int:
        return super(LeapingClock, self).now_ms() + self.ahead_ms + self.set_ms

    def monotonic_s(self) -> float:
        return super(LeapingClock, self).monotonic_s() + self.ahead_ms / 1000

    async def sleep_s(self, seconds: float) -> None:
        until_s = self.monotonic_s() + seconds
        self.sleepers += 1
        try:
            while self.monotonic_s() < until_s:
                await self.leapt.wait()
        finally:
            self.sleepers -= 1

    def leap(self, minutes: float) -> None:
        self.ahead_ms += int(60_000 * minutes)
        self.leapt.set()
        self.leapt = asyncio.Event()


class ACent(Prices):
    """Every call costs a cent, but the price of the first is not known."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def cost_usd(self, target: Target, used: TokensUsed) -> float | None:
        del target, used
        self._calls += 1
        return None if self._calls == 1 else 0.01


@dataclass(slots=True)
class Lasting(Effect):
    """A tool that goes on until it is ended, and needs a moment for that."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            self.receiver.append("ended")
        raise AssertionError(args, call)


@pytest.mark.parametrize(
    ("budget", "cause", "calls", "words"),
    [
        (Budget(turns=2), "turns", 2, "its budget of 2 model answers"),
        (Budget(tokens=1), "tokens", 1, "its budget of 1 token."),
        (Budget(cost_usd=0.015), "cost_usd", 3, "its budget of 0.015 USD"),
    ],
)
async def test_what_is_used_up_ends_the_run(budget: Budget, cause: str, calls: int, words: str) -> None:
    """P4: used up is not completed, no further call is made, and the ending says what was used up.

    The price of the first call is unknown; those that are known count.
    """
    async with (
        ChaosServer([CallTool("one")], after_last="repeat") as chaos,
        process(chaos, Effect("one", []), prices=ACent()) as world,
    ):
        await send(world, budget=budget)
        ended = ending(await world.until("s", e.RunEnded))
        assert (ended.outcome, ended.cause) == ("budget", cause)
        assert len(chaos.seen.requests) == calls
        assert words in ended.trace[0]
        assert f"budget.{cause} with the request" in ended.trace[0]


async def test_a_request_cannot_raise_what_the_operator_allows() -> None:
    async with (
        ChaosServer([CallTool("one")], after_last="repeat") as chaos,
        process(chaos, Effect("one", []), budget=Budget(turns=2, minutes=9)) as world,
    ):
        await send(world, budget=Budget(turns=50, tokens=10**9))
        ended = ending(await world.until("s", e.RunEnded))
        assert (ended.outcome, ended.cause) == ("budget", "turns")
        assert len(chaos.seen.requests) == 2
        assert "agent.turns_max in the configuration" in ended.trace[0]


def test_the_smaller_of_two_budgets_is_taken_part_by_part() -> None:
    one, other = Budget(tokens=5, turns=9, minutes=0.5), Budget(tokens=7, cost_usd=2.0, turns=3)
    assert one.within(other) == other.within(one) == Budget(tokens=5, cost_usd=2.0, turns=3, minutes=0.5)
    assert one.within(Budget()) == one


async def test_minutes_end_a_run_in_the_middle_of_an_answer_and_what_was_said_stays() -> None:
    """P3, P4: the connection is closed, and the words that came are kept."""
    clock, gate = LeapingClock(), Gate()
    async with (
        ChaosServer([Say("half an answer"), Wait(gate)]) as chaos,
        process(chaos, clock=clock, patience=PATIENT) as world,
    ):
        run_id = await send(world, budget=FIVE_MINUTES)
        await world.until("s", e.TextDelta)
        clock.leap(4.9)
        assert run_id in {run.run_id for run in (await world.inbox.state("s")).open_runs}
        clock.leap(0.2)
        log = await world.until("s", e.RunEnded)
        ended = ending(log)
        assert (ended.outcome, ended.cause) == ("budget", "minutes")
        assert ended.trace[0].startswith("The run reached its budget of 5 minutes.")
        assert answer(log, run_id) == "half an answer"
        failed = [record.event.failure.text for record in log if isinstance(record.event, e.AttemptFailed)]
        assert failed == ["stopped: budget"]


@pytest.mark.parametrize("hours", [1, -1])
async def test_setting_the_clock_neither_uses_up_minutes_nor_adds_any(hours: int) -> None:
    """P3."""
    clock, gate = LeapingClock(), Gate()
    async with (
        ChaosServer([Say("half"), Wait(gate)]) as chaos,
        process(chaos, clock=clock, patience=PATIENT) as world,
    ):
        run_id = await send(world, budget=FIVE_MINUTES)
        await world.until("s", e.TextDelta)
        clock.set_ms = hours * 3_600_000
        clock.leap(4.9)
        assert run_id in {run.run_id for run in (await world.inbox.state("s")).open_runs}
        clock.leap(0.2)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("budget", "minutes")


async def test_minutes_end_a_tool_and_the_run_waits_until_it_is_over() -> None:
    """P3, P5, P6: nothing of the run goes on after its ending, and the effect is said to be unknown."""
    clock, happened = LeapingClock(), list[str]()
    tool = Lasting("last", happened)
    async with (
        ChaosServer([CallTool("last")]) as chaos,
        process(chaos, tool, clock=clock, budget=FIVE_MINUTES) as world,
    ):
        await send(world, budget=Budget(minutes=60))
        await tool.begun.wait()
        clock.leap(6)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("budget", "minutes")
        assert "agent.budget.minutes in the configuration" in ending(log).trace[0]
        assert [ended.ending for ended in tool_ends(log)] == ["killed"]
        assert happened == ["ended"]


async def test_no_minutes_pass_while_people_are_asked() -> None:
    """P8: an approval that takes a person an hour costs the run nothing."""
    clock, done = LeapingClock(), list[str]()
    async with (
        ChaosServer([CallTool("one")], [Say("thanks")]) as chaos,
        process(chaos, Effect("one", done), judge=asks_about("one"), clock=clock) as world,
    ):
        await send(world, budget=FIVE_MINUTES)
        asked = (await world.until("s", e.ApprovalAsked))[-1].event
        assert isinstance(asked, e.ApprovalAsked)
        while clock.sleepers:  # noqa: ASYNC110  # the run learns of its ask from the log, as everybody does
            await asyncio.sleep(0.001)
        clock.leap(55)
        yes = ApprovalVerdict("once")
        assert await world.inbox.answer(asked.approval_id, yes) == Answered(asked.approval_id)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert done == ["one {}"]


async def test_minutes_go_on_after_a_restart_where_they_were() -> None:
    """P6: a crash is a pause; the time that nobody carried the run out is not the run's."""
    clock, gate, disk = LeapingClock(), Gate(), MemoryDisk()
    async with ChaosServer([Say("half"), Wait(gate)], [Say("whole"), Wait(gate)]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, store=frozen, clock=clock, patience=PATIENT) as world:
            await send(world, budget=FIVE_MINUTES)
            await world.until("s", e.TextDelta)
            clock.leap(3)
            await frozen.close()
        clock.leap(60)
        async with process(chaos, store=MemoryStore(disk), clock=clock, patience=PATIENT) as world:
            run_id = next(iter((await world.inbox.state("s")).runs))
            await world.until("s", e.TextDelta, times=2)
            clock.leap(4)
            assert not (await world.inbox.state("s")).runs[run_id].outcome
            clock.leap(1.5)
            log = await world.until("s", e.RunEnded)
            assert (ending(log).outcome, ending(log).cause) == ("budget", "minutes")
            assert answer(log, run_id) == "whole"


async def test_a_stop_while_a_run_is_ended_for_its_minutes_cuts_nothing_short() -> None:
    """P5: what is being ended is ended, whoever else says stop meanwhile."""
    ending_it, ended = asyncio.Event(), list[str]()
    finish = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ending_it.set()
            await finish.wait()
            ended.append("all of it")

    async def over() -> None:
        await asyncio.sleep(0)

    task = asyncio.create_task(run_until(work(), over()))
    await ending_it.wait()
    task.cancel("user_stop")
    await asyncio.sleep(0)
    assert not ended
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["all of it"]
