"""A run with fewer rights than the configuration gives: some tools only, and nobody who could approve."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.world import Effect, asks_about, ending, process, send, tool_ends
from features.memory.world import memory_tools, of_user, opened, typed
from holdfast import events as e
from holdfast.agent.calls import NO_SANDBOX, OFFLINE
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say, SeenRequest
from holdfast.features.plans.events import PlanUpdated
from holdfast.features.plans.run import FinishGoal, UpdatePlan
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.verdicts import RuleVerdict
from holdfast.runner.asks import ApprovalVerdict, QuestionAnswer
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import WriteFile
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.tool import Shell, ShellWorld
from holdfast.values import PlanStep
from stores import MemoryStore


def offered(request: SeenRequest) -> list[str]:
    tools = msgspec.convert((request.body or {})["tools"], list[dict[str, Any]])
    return [tool["function"]["name"] for tool in tools]


async def test_a_run_is_offered_and_can_call_only_the_tools_that_it_may_use() -> None:
    done: list[str] = []
    calls = [CallTool("one", {}), CallTool("two", {})]
    async with (
        ChaosServer(calls, [Say("done")]) as chaos,
        process(chaos, Effect("one", done), Effect("two", done)) as world,
    ):
        await send(world, tools=("one", "unknown"))
        log = await world.until("s", e.RunEnded)
        assert offered(chaos.seen.request(1)) == ["one"]
    assert done == ["one {}"]
    assert [end.ok for end in tool_ends(log)] == [True, False]
    assert tool_ends(log)[1].result == "Unknown tool 'two'. Available tools: one."


async def test_an_unattended_run_is_refused_what_would_be_asked_and_its_questions_have_no_answer() -> None:
    done: list[str] = []
    question = {"question": "Which?"}
    calls = [CallTool("risky", {}), CallTool("safe", {}), CallTool("ask_user", question)]
    async with (
        ChaosServer(calls, [Say("done")]) as chaos,
        process(chaos, Effect("risky", done), Effect("safe", done), judge=asks_about("risky")) as world,
    ):
        await send(world, unattended=True)
        log = await world.until("s", e.RunEnded)
        assert offered(chaos.seen.request(1)) == ["risky", "safe"]
    assert done == ["safe {}"]
    assert not any(isinstance(record.event, e.ApprovalAsked | e.QuestionAsked) for record in log)
    assert [end.ending for end in tool_ends(log)][:2] == ["no_approver", "finished"]
    assert not tool_ends(log)[2].ok
    assert ending(log).outcome == "completed"


STEPS = {"steps": [{"text": "write", "state": "pending"}]}
SKILL = {"name": "notes", "description": "Notes", "body": "Write them.", "reason": "often needed"}
# The agent loop carries these out.
IN_LOOP = (
    CallTool("ask_user", {"text": "Which?"}),
    CallTool("update_plan", STEPS),
    CallTool("finish_goal", {"outcome": "blocked", "summary": "Stuck.", "evidence": []}),
    CallTool("propose_skill", SKILL),
    CallTool("remember", {"about": "user", "text": "likes tea", "reason": "for breakfast"}),
)


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_rule_applies_to_the_tools_that_the_loop_carries_out(verdict: RuleVerdict) -> None:
    """P13, P8: called directly or through call_tool."""
    store = MemoryStore()
    rules = tuple(ApprovalRule(verdict, one.name) for one in IN_LOOP)
    through = [CallTool("call_tool", {"name": one.name, "arguments": one.args}) for one in IN_LOOP]
    async with (
        ChaosServer([*IN_LOOP, *through], [Say("done")]) as chaos,
        process(
            chaos,
            *(UpdatePlan(), FinishGoal(), *memory_tools(store)),
            judge=ConfiguredJudge(rules=rules, home=Path("/nowhere")),
            store=store,
            features=opened(store, "auto"),
        ) as world,
    ):
        await typed(world, "hi")
        if verdict == "ask":
            for times in range(1, 2 * len(IN_LOOP) + 1):
                log = await world.until("s", e.ApprovalAsked, times=times)
                last = [one.event for one in log if isinstance(one.event, e.ApprovalAsked)][-1]
                await world.inbox.answer(last.approval_id, ApprovalVerdict("deny"))
        log = await world.until("s", e.RunEnded)
        memory = await of_user(store)
    assert [end.ending for end in tool_ends(log)] == ["denied"] * 2 * len(IN_LOOP)
    assert not any(isinstance(record.event, e.QuestionAsked | PlanUpdated) for record in log)
    assert (memory.document, memory.proposals) == ("", {})


async def test_an_approval_that_a_rule_requires_is_not_the_answer_to_a_question() -> None:
    """P8: the question is asked once it may be, and a changed plan is stored as it was approved."""
    rules = (ApprovalRule("ask", "ask_user"), ApprovalRule("ask", "update_plan"))
    changed = (PlanStep(text="read first", state="pending"),)
    async with (
        ChaosServer(list(IN_LOOP[:2]), [Say("done")]) as chaos,
        process(chaos, UpdatePlan(), judge=ConfiguredJudge(rules=rules, home=Path("/nowhere"))) as world,
    ):
        await send(world)
        for times, verdict in ((1, ApprovalVerdict("once")), (2, ApprovalVerdict("once", steps=changed))):
            log = await world.until("s", e.ApprovalAsked, times=times)
            last = [one.event for one in log if isinstance(one.event, e.ApprovalAsked)][-1]
            await world.inbox.answer(last.approval_id, verdict)
            if times == 1:
                log = await world.until("s", e.QuestionAsked)
                asked = log[-1].event
                assert isinstance(asked, e.QuestionAsked)
                await world.inbox.answer(asked.question_id, QuestionAnswer("blue"))
        log = await world.until("s", e.RunEnded)
    assert [end.ok for end in tool_ends(log)] == [True, True]
    assert "blue" in tool_ends(log)[0].result
    assert [one.event.steps for one in log if isinstance(one.event, PlanUpdated)] == [changed]


@pytest.mark.parametrize(("unattended", "is_written"), [(True, False), (False, True)])
async def test_an_unattended_run_changes_nothing_that_the_servers_mode_would_allow(
    tmp_path: Path, *, unattended: bool, is_written: bool
) -> None:
    """P13: nobody is there to see what a webhook makes the model do, whatever mode the server is in."""
    judge = ConfiguredJudge(mode="workspace", home=tmp_path / "home")
    write = CallTool("write_file", {"path": "new.txt", "content": "x"})
    async with (
        ChaosServer([write], [Say("done")]) as chaos,
        process(chaos, WriteFile(FilesSeen()), judge=judge) as world,
    ):
        await send(world, unattended=unattended, workspace=str(tmp_path))
        log = await world.until("s", e.RunEnded)
    assert (tmp_path / "new.txt").exists() is is_written
    assert [end.ending for end in tool_ends(log)] == ["finished" if is_written else "no_approver"]


async def test_an_offline_run_fetches_nothing_and_runs_no_command_without_a_sandbox(tmp_path: Path) -> None:
    done: list[str] = []
    calls = [
        CallTool("fetch_url", {"url": "http://127.0.0.1:1/"}),
        CallTool("named", {}),
        CallTool("shell", {"command": "true"}),
    ]
    shell = Shell(ShellWorld(environment={}, background=Background(tmp_path, now_ms=lambda: 0)))
    async with (
        ChaosServer(calls, [Say("done")]) as chaos,
        process(chaos, Effect("fetch_url", done), Effect("named", done), shell) as world,
    ):
        await send(world, offline=True, tools=("fetch_url", "named", "shell"), workspace=str(tmp_path))
        log = await world.until("s", e.RunEnded)
    assert done == ["named {}"]
    assert [end.result for end in tool_ends(log)] == [OFFLINE, "named done", NO_SANDBOX]
