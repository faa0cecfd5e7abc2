"""Sub-agents: their tasks, their rights, their budgets, and what becomes of them when their parent stops."""

import asyncio
from typing import Any

from agent.world import Effect, World, answer, asks_about, ending, process, send, tool_ends
from features.delegation.family import (
    TOKENS,
    Family,
    everyone,
    family_answer,
    family_process,
    folded,
    members,
    until_quiet,
)
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.features.delegation.tools import child_tools
from holdfast.runner.asks import Answered, ApprovalVerdict
from holdfast.runner.supervisor import RunnerLimits
from holdfast.values import Budget


async def first_child(world: World) -> e.ChildStarted:
    """The first sub-agent, once it is on the log."""
    log = await world.until("s", e.ChildStarted)
    return next(record.event for record in log if isinstance(record.event, e.ChildStarted))


async def test_a_tree_of_sub_agents_works_side_by_side_and_each_answer_arrives_once() -> None:
    """P14: also with one slot for all of them, because whoever waits lends its own."""
    acted, family = list[str](), Family()
    async with family_process(family, acted, limits=RunnerLimits(runs_max=1)) as world:
        run_id = await send(world, "a 8 3")
        log = await world.until("s", e.RunEnded)
        assert answer(log, run_id) == family_answer("a", 8, 3)
        found = await everyone(world.store, "s")
    assert len(found) == len(members("a", 8, 3)) == 25
    assert sorted(acted) == sorted(f"act {{'name': '{name}'}}" for name in members("a", 8, 3))
    assert max(fold.parent.depth for _, fold in found if fold.parent) == 3
    assert {fold.source for _, fold in found if fold.parent} == {"child"}


async def test_an_agent_in_the_background_is_heard_at_the_next_call_or_in_a_run_of_its_own() -> None:
    """P14: its answer is a message that is delivered once."""
    opened, family = asyncio.Event(), Family()

    async def hold(name: str) -> None:
        if name == "a.2":
            await opened.wait()

    family.before = hold
    async with family_process(family, []) as world:
        first = await send(world, "a 2 1 background")
        log = await world.until("s", e.RunEnded)
        assert answer(log, first) == "a waits"
        opened.set()
        log = await until_quiet(world, "s")
    last = [record.event for record in log if isinstance(record.event, e.RunQueued)][-1].run_id
    assert answer(log, last) in {"a(a.1 a.2)", "a(a.2 a.1)"}
    assert sum(isinstance(record.event, e.ChildEnded) for record in log) == 2
    assert sum(isinstance(record.event, e.MessageAccepted) for record in log) == 3


async def test_a_stop_stops_the_sub_agents_first_and_nothing_happens_afterwards() -> None:
    """P5: the run says that it is cancelled when the last of them has ended."""
    never, waiting, family = asyncio.Event(), asyncio.Event(), Family()

    async def hang(name: str) -> None:
        if name.count(".") == 2:
            waiting.set()
            await never.wait()

    family.before = hang
    async with family_process(family, []) as world:
        run_id = await send(world, "a 3 2")
        await waiting.wait()
        await world.inbox.stop("s", run_id)
        log = await world.until("s", e.RunEnded)
        found = await everyone(world.store, "s")
    assert sum(isinstance(one.event, e.ChildEnded) for one in log) == 3
    assert isinstance(log[-1].event, e.RunEnded)
    assert {run.outcome for _, fold in found for run in fold.runs.values()} == {"cancelled"}


async def test_a_stop_while_they_work_stops_those_in_the_background_unless_they_outlive_it() -> None:
    """P5."""
    held, family = asyncio.Event(), Family()
    family.extra = {"background": True}

    async def hold(name: str) -> None:
        if name != "a" or family.calls["a"] > 1:
            await held.wait()

    family.before = hold
    for outlives in (False, True):
        family.extra = {"background": True, "outlives_stop": outlives}
        family.calls.clear()
        held.clear()
        async with family_process(family, []) as world:
            run_id = await send(world, "a 1 1")
            await world.until("s", e.CallStarted, times=2)
            await world.inbox.stop("s", run_id)
            log = await world.until("s", e.RunEnded)
            assert ending(log).outcome == "cancelled"
            assert any(isinstance(one.event, e.ChildEnded) for one in log) is not outlives
            held.set()
            log = await until_quiet(world, "s")
        delivered = [one for one in log if isinstance(one.event, e.MessageAccepted) and one.event.child]
        assert len(delivered) == outlives


async def test_sub_agents_share_the_budget_and_give_back_what_they_do_not_use() -> None:
    """P14: what is reserved is on the log before a sub-agent exists, and never more than is left."""
    family = Family()
    async with family_process(family, []) as world:
        run_id = await send(world, "a 8 1", budget=Budget(tokens=100 * TOKENS))
        log = await world.until("s", e.RunEnded)
        fold = await folded(world.store, "s")
    begun = [one.event for one in log if isinstance(one.event, e.ChildStarted)]
    shares = [one.settings.budget.tokens for one in begun if one.settings.budget]
    assert shares == [11 * TOKENS] * 8  # nine parts of what the first call left
    assert ending(log).outcome == "completed"
    run = fold.runs[run_id]
    assert run.used_by_children.input_tokens == 8 * 2 * TOKENS
    assert run.usage.input_tokens == 2 * TOKENS


async def test_a_family_exceeds_its_budget_by_one_call_of_each_agent_at_most() -> None:
    """P14: the overrun is the call in flight."""
    budget = 10 * TOKENS
    family = Family()
    async with family_process(family, []) as world:
        await send(world, "a 8 2", budget=Budget(tokens=budget))
        await world.until("s", e.RunEnded)
        found = await everyone(world.store, "s")
    used = sum(fold.usage.input_tokens for _, fold in found)
    assert budget <= used <= budget + TOKENS * len(found)


async def test_a_sub_agent_has_no_tool_that_its_parent_lacks() -> None:
    """P13: nor one that its parent didn't give it."""
    acted = list[str]()
    task = {"task": "look", "tools": ["ask_user"]}
    scripts = (
        [CallTool("delegate", {"task": "look", "tools": ["rocket"]})],
        [CallTool("delegate", task)],
        [CallTool("act")],
        [Say("I could not")],
        [Say("done")],
    )
    async with (
        ChaosServer(*scripts) as chaos,
        process(chaos, Effect("act", acted), *child_tools()) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        child = await first_child(world)
        theirs = await world.log(child.child_id)
    refused, done = tool_ends(log)
    assert refused.ending == "not_started"
    assert "You have no tool 'rocket' to give" in refused.result
    assert done.result == "I could not"
    assert "Unknown tool 'act'" in tool_ends(theirs)[0].result
    assert acted == []


async def test_what_a_sub_agent_asks_is_answered_by_its_own_id_while_the_parent_waits() -> None:
    """P8: the parent's patience rests meanwhile, and no copy of the ask exists."""
    acted = list[str]()
    scripts = ([CallTool("delegate", {"task": "act"})], [CallTool("act")], [Say("acted")], [Say("done")])
    async with (
        ChaosServer(*scripts) as chaos,
        process(chaos, Effect("act", acted), *child_tools(), judge=asks_about("act")) as world,
    ):
        await send(world)
        child = await first_child(world)
        log = await world.until(child.child_id, e.ApprovalAsked)
        asked = next(one.event for one in log if isinstance(one.event, e.ApprovalAsked))
        assert not any(isinstance(one.event, e.ApprovalAsked) for one in await world.log("s"))
        answered = ApprovalVerdict("once")
        assert await world.inbox.answer(asked.approval_id, answered) == Answered(asked.approval_id)
        log = await world.until("s", e.RunEnded)
    assert tool_ends(log)[0].result == "acted"
    assert len(acted) == 1
    said = [one.event.text for one in log if isinstance(one.event, e.ToolOutput)]
    assert any("agent-1: waits for an approval" in line for line in said)


async def test_a_sub_agent_whose_parent_is_deleted_says_so_and_ends() -> None:
    """P14."""
    gate = Gate()
    scripts = (
        [CallTool("delegate", {"task": "look", "background": True})],
        [Say("later")],
        [Wait(gate), Say("seen")],
    )
    async with ChaosServer(*scripts, after_last="repeat") as chaos:
        tools = child_tools()
        async with process(chaos, *tools) as world:
            store = world.store
            await send(world)
            await world.until("s", e.RunEnded)
            child = await first_child(world)
            await world.until(child.child_id, e.AttemptStarted)
        # The server is down while the parent is deleted.
        await store.append("s", [e.SessionDeleted(at_ms=1, purge_at_ms=2)])
        gate.open()
        async with process(chaos, *tools, store=store) as world:
            log = await world.until(child.child_id, e.ParentTold)
    ended = ending(log)
    assert (ended.outcome, ended.cause) == ("cancelled", "parent_gone")
    assert isinstance(log[-1].event, e.ParentTold)
    assert not log[-1].event.gone  # it can be restored until it is purged
    fold = await folded(store, "s")
    assert [child.ended.cause for child in fold.children.values() if child.ended] == ["parent_gone"]
    assert not fold.inbox.waiting()


async def test_the_verbs_reach_a_sub_agent_in_the_background() -> None:
    gate = Gate()
    scripts = (
        [CallTool("delegate", {"task": "look", "background": True})],
        [CallTool("child_status"), CallTool("child_steer", {"name": "agent-1", "message": "quick"})],
        [CallTool("child_tail", {"name": "agent-1"}), CallTool("child_stop", {"name": "agent-1"})],
        [CallTool("child_wait"), CallTool("child_steer", {"name": "agent-1", "message": "too late"})],
        [CallTool("child_stop", {"name": "agent-7"})],
        [Say("done")],
    )
    theirs = [Say("half"), Wait(gate)]

    def choose(request: Any) -> Any:
        is_child = "You are a sub-agent" in str(request.body)
        return theirs if is_child else mine.pop(0)

    mine = list(scripts)
    async with ChaosServer(choose=choose) as chaos, process(chaos, *child_tools()) as world:
        await send(world)
        log = await world.until("s", e.RunEnded)
        child = await first_child(world)
        said = [
            one.event for one in await world.log(child.child_id) if isinstance(one.event, e.MessageAccepted)
        ]
        gate.open()
    texts = [one.result for one in tool_ends(log)]
    assert texts[0] == "Sub-agent agent-1 works in the background. Its answer will come as a message."
    assert "child_status" in tool_ends(log)[0].advice
    assert texts[1].startswith("agent-1: ")
    assert texts[2] == "agent-1 reads it before its next step."
    assert [one.text for one in said] == ["look", "quick"]
    assert texts[3].startswith("> look")
    assert texts[4].startswith("agent-1 was stopped. It didn't finish.")
    assert texts[5] == "agent-1: ended, cancelled"
    assert texts[6] == "agent-1 has ended, so it can't receive messages."
    assert "There is no sub-agent 'agent-7'. There are: agent-1." in texts[7]


async def test_no_more_than_so_many_work_at_once_and_no_deeper_than_so_many_levels() -> None:
    """P10: one that is waited for waits for room, and the deepest has no tool to delegate with."""
    family, working, most = Family(), set[str](), list[int]()

    async def count(name: str) -> None:
        if "." in name:
            working.add(name)
            most.append(len(working))
            await asyncio.sleep(0)
            if family.calls[name] == 2:
                working.discard(name)

    family.before = count
    async with family_process(family, [], children_max=2, depth_max=1) as world:
        run_id = await send(world, "a 5 1")
        log = await world.until("s", e.RunEnded)
        assert answer(log, run_id) == family_answer("a", 5, 1)
        second = await send(world, "b 1 2")
        log = await world.until("s", e.RunEnded, times=2)
        assert "A sub-agent of this level can't start its own" in answer(log, second)
    assert max(most) <= 2


async def test_a_sub_agent_asks_as_its_parents_session_does() -> None:
    """P13: a mode that a person chose for the session holds for its sub-agents too."""
    async with family_process(Family(), []) as world:
        await send(world, "a 0 0")
        await until_quiet(world, "s")
        await world.store.append("s", [e.SessionModeSet(at_ms=0, mode="unattended")])
        await send(world, "a 1 1")
        await until_quiet(world, "s")
        found = await everyone(world.store, "s")
    assert [fold.approval_mode for _, fold in found] == ["unattended"] * 2
