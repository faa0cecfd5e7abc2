"""Plans, plan mode and goals: what the model may do, what people see, and what survives a crash."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any, NoReturn

import msgspec
import pytest

from agent.world import (
    CrashingStore,
    Effect,
    World,
    asks_about,
    ending,
    messages,
    people,
    process,
    roles,
    send,
    tool_ends,
)
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.plans.folds import plan_state
from holdfast.features.plans.run import ACCEPTED, CHANGED, STILL_PLANNING, FinishGoal, UpdatePlan
from holdfast.folds import session
from holdfast.interfaces.journal import JournalError, Record
from holdfast.interfaces.tool import ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.asks import ApprovalVerdict
from holdfast.values import Budget, ClientTool, PlanStep
from stores import MemoryStore

STEPS = [{"text": "look", "state": "in_progress"}, {"text": "act"}]
LOOKS = ToolTraits(read_only=True, parallel_safe=True)


def plans(records: list[Record]) -> list[PlanUpdated]:
    return [record.event for record in records if isinstance(record.event, PlanUpdated)]


def tool_names(request: SeenRequest) -> list[str]:
    tools = msgspec.convert((request.body or {}).get("tools", []), list[dict[str, Any]])
    return [tool["function"]["name"] for tool in tools]


async def test_a_plan_is_an_event_and_needs_nobody_outside_plan_mode() -> None:
    async with (
        ChaosServer([CallTool("update_plan", {"steps": STEPS})], [Say("done")]) as chaos,
        process(chaos, UpdatePlan(), FinishGoal()) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        (plan,) = plans(log)
        assert plan.steps == (PlanStep(text="look", state="in_progress"), PlanStep(text="act"))
        assert not plan.accepted
        assert tool_names(chaos.seen.request(1)) == ["update_plan", "ask_user"]  # there is no goal to finish


@pytest.mark.parametrize(
    "steps", [[], [{"text": ""}], [{"text": "x", "state": "soon"}], [{"text": "x"}] * 51]
)
async def test_what_is_no_plan_is_told_to_the_model(steps: list[object]) -> None:
    async with (
        ChaosServer([CallTool("update_plan", {"steps": steps})], [Say("sorry")]) as chaos,
        process(chaos, UpdatePlan()) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert plans(log) == []
        assert not tool_ends(log)[0].ok


async def test_in_plan_mode_only_what_reads_runs_until_a_person_accepts_the_plan() -> None:
    """P8: neither the server's tools nor the client's change anything before."""
    looked: list[str] = []
    acted: list[str] = []
    yours = ClientTool(name="yours")
    early = [CallTool("look"), CallTool("act"), CallTool("yours"), CallTool("update_plan", {"steps": STEPS})]
    async with (
        ChaosServer(early, [CallTool("act")], [Say("done")]) as chaos,
        process(chaos, Effect("look", looked, LOOKS), Effect("act", acted), UpdatePlan()) as world,
    ):
        await send(world, plan_first=True, client_tools=(yours,))
        log = await world.until("s", e.ApprovalAsked)
        assert (len(looked), acted) == (1, [])
        (asked,) = [one.event for one in log if isinstance(one.event, e.ApprovalAsked)]
        assert asked.choices == ("once", "deny")
        assert asked.action.summary == "[>] look\n[ ] act"
        changed = (PlanStep(text="only act"),)
        yes = ApprovalVerdict("once", steps=changed)
        await world.inbox.answer(asked.approval_id, yes)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert len(acted) == 1
        assert [(plan.steps, plan.accepted) for plan in plans(log)] == [(changed, True)]
        results = [one.result for one in tool_ends(log)]
        assert results.count(STILL_PLANNING) == 2
        assert f"{CHANGED}\n[ ] only act" in results
        # The declared tools don't depend on the mode, so that prompt caches work.
        for number in (1, 2):
            declared = tool_names(chaos.seen.request(number))
            assert declared == ["look", "act", "update_plan", "ask_user", "yours"]


async def test_a_rejected_plan_leaves_the_run_in_plan_mode_with_the_reason() -> None:
    acted: list[str] = []
    propose: Script = [CallTool("update_plan", {"steps": STEPS})]
    async with (
        ChaosServer(propose, [CallTool("act")], [Say("as you wish")]) as chaos,
        process(chaos, Effect("act", acted), UpdatePlan()) as world,
    ):
        await send(world, plan_first=True)
        log = await world.until("s", e.ApprovalAsked)
        (asked,) = [one.event for one in log if isinstance(one.event, e.ApprovalAsked)]
        no = ApprovalVerdict("deny", reason="too short")
        await world.inbox.answer(asked.approval_id, no)
        log = await world.until("s", e.RunEnded)
        rejected, kept_back = tool_ends(log)
        assert "too short" in rejected.result
        assert kept_back.result == STILL_PLANNING
        assert (acted, plans(log)) == ([], [])


async def test_a_goal_goes_on_by_itself_until_the_evidence_is_in_a_result() -> None:
    """P4: the run isn't completed because the model only says so."""
    claims = {"outcome": "reached", "summary": "all good", "evidence": ["act done, truly"]}
    shows = claims | {"evidence": ["act  done"]}
    scripts: list[Script] = [
        [Say("I believe it's done")],
        [CallTool("act")],
        [CallTool("finish_goal", claims)],
        [CallTool("finish_goal", shows)],
        [Say("reached")],
    ]
    async with (
        ChaosServer(*scripts) as chaos,
        process(chaos, Effect("act", []), UpdatePlan(), FinishGoal()) as world,
    ):
        await send(world, goal=True)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("completed", "")
        rounds = [one.event for one in log if isinstance(one.event, GoalContinued)]
        assert [one.round for one in rounds] == [2]
        assert [one.ok for one in tool_ends(log)] == [True, False, True]
        assert roles(chaos.seen.request(2))[-1] == "user"
        assert messages(chaos.seen.request(2))[-1]["content"] == rounds[0].told


async def test_a_goal_ends_with_its_budget_and_a_blocked_one_says_so() -> None:
    async with ChaosServer(*[[Say("not yet")]] * 3) as chaos, process(chaos, FinishGoal()) as world:
        await send(world, goal=True, budget=Budget(turns=3))
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("budget", "turns")
        assert sum(isinstance(one.event, GoalContinued) for one in log) == 3
    blocked = {"outcome": "blocked", "summary": "no key"}
    async with (
        ChaosServer([CallTool("finish_goal", blocked)], [Say("I need a key")]) as chaos,
        process(chaos, FinishGoal()) as world,
    ):
        await send(world, goal=True)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("completed", "goal_blocked")


def script(request: SeenRequest) -> Script:
    """What the model does depends on what it was shown, so it is the same model after every restart."""
    said = messages(request)
    results = [str(message["content"]) for message in said if message["role"] == "tool"]
    if not results:
        return [CallTool("update_plan", {"steps": STEPS})]
    if "act done" not in results:
        assert results == [ACCEPTED], results
        return [CallTool("act")]
    told = any("round 2" in str(message["content"]) for message in said)
    if not told:
        return [Say("I think that's all")]
    if len(results) == 2:
        return [CallTool("finish_goal", {"outcome": "reached", "summary": "ok", "evidence": ["act done"]})]
    return [Say("all done")]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, acted: list[str]) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=False)
    tools = (Effect("act", acted, ToolTraits(idempotent=True)), UpdatePlan(), FinishGoal())
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, *tools, store=store, judge=asks_about()) as world:
            tasks = [asyncio.create_task(one) for one in (use(world), people(world, "s"), died.wait())]
            await asyncio.wait({tasks[0], tasks[2]}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def use(world: World) -> None:
    if not await world.store.last_seq("s"):
        await send(world, plan_first=True, goal=True)
    await world.until("s", e.RunEnded)


async def test_a_crash_at_any_append_of_a_planned_run_with_a_goal_loses_no_plan_and_no_round() -> None:
    """P6."""
    for nth in count(1):
        disk, acted = MemoryDisk(), list[str]()
        async with ChaosServer(choose=script) as chaos:
            crash = CrashPoint(nth)
            await live(chaos, disk, crash, acted=acted)
            if crash.has_crashed:
                await live(chaos, disk, CrashPoint(10_000), acted=acted)
        records = list(await MemoryStore(disk).read("s", limit=10_000))
        log = [(record.seq, record.event) for record in records]
        run = next(iter(session.fold(log).runs.values()))
        assert run.outcome == "completed", nth
        assert len(set(acted)) == 1
        plans = [event for _, event in log if isinstance(event, PlanUpdated)]
        assert [plan.accepted for plan in plans] == [True]
        assert plan_state(run).goal_round == 2
        if not crash.has_crashed:
            return
