"""Sub-agents of an embedded agent: what each sees and may use, its approvals, and what is refused."""

import asyncio
from typing import Any

import pytest

from holdfast import Agent, ApprovalNeeded, ConfigurationError, PendingApproval, SubAgent, ToolContext, tool
from holdfast.chaos import ChaosServer, Script, SeenRequest
from holdfast.events import ToolEnded
from holdfast.targets import Target
from holdfast.testing import Call, Hang, Say, ScriptedModel

ANY: Any = SubAgent


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def pay(context: ToolContext[str], cents: int) -> str:
    """Pay somebody."""
    return f"{context.deps} paid {cents}"


TELLER = SubAgent(name="teller", description="Pays.", instructions="You are a teller.", tools=[pay])


def tools_of(request: Any) -> list[str]:
    return [one["function"]["name"] for one in request.get("tools", ())]


async def test_a_sub_agent_has_its_own_instructions_and_tools_and_the_agent_gets_its_answer() -> None:
    model = ScriptedModel(
        [
            Call("delegate", agent="teller", task="Pay 5 cents"),
            Call("pay", cents=5),
            Say("Paid."),
            Say("All done."),
        ]
    )

    async def yes(approval: PendingApproval) -> bool:
        return approval.arguments == {"cents": 5}

    agent = Agent[str](model, instructions="You are a boss.", tools=[add], agents=[TELLER], on_approval=yes)
    result = await agent.run("Pay", deps="ann")
    assert result.output == "All done."
    assert [one.result for one in result.events if isinstance(one, ToolEnded)] == ["Paid."]
    first, of_child, after_tool, last = model.requests
    assert tools_of(first) == tools_of(last) == ["add", "delegate"]
    assert "You are a boss." in str(first["messages"][0])
    assert "teller: Pays." in str(first["tools"])
    assert tools_of(of_child) == ["pay"]
    assert "You are a teller." in str(of_child["messages"][0])
    assert "You are a boss." not in str(of_child["messages"])
    assert "ann paid 5" in str(after_tool["messages"]), "it has the dependencies of its parent's run"


async def test_an_approval_of_a_sub_agent_can_be_answered_at_the_run_that_waits_for_it() -> None:
    """P8."""
    model = ScriptedModel(
        [Call("delegate", agent="teller", task="Pay"), Call("pay", cents=5), Say("Paid."), Say("Done.")]
    )
    async with Agent[str](model, agents=[TELLER], deps="bob") as agent:
        run = await agent.start("Pay")
        with pytest.raises(ApprovalNeeded) as needed:
            await run.result()
        assert (needed.value.tool, needed.value.arguments) == ("pay", {"cents": 5})
        await run.approve(needed.value.approval_id)
        assert (await run.result()).output == "Done."
    assert "bob paid 5" in str(model.requests[2]["messages"])


async def test_a_stop_ends_the_sub_agents_too() -> None:
    """P5."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        """Work for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker = SubAgent(name="worker", description="Works.", tools=[work])
    model = ScriptedModel([Call("delegate", agent="worker", task="Work"), Call("work"), Hang()])
    async with Agent(model, agents=[worker]) as agent:
        run = await agent.start("Work")
        await began.wait()
        await run.stop()
        assert ended.is_set()
        assert await agent.open_runs() == []


async def test_a_sub_agent_uses_the_model_that_it_names() -> None:
    def answer(request: SeenRequest) -> Script:
        model = (request.body or {})["model"]
        if model == "small":
            return [Say("from the small one")]
        asked = "from the small one" in str(request.body)
        return [Say("Done.")] if asked else [Call("delegate", agent="scout", task="Look")]

    scout = SubAgent(name="scout", description="Looks.", model="second")
    async with ChaosServer(choose=answer) as chaos:
        targets = [
            Target(name=name, wire="chat", base_url=chaos.base_url, model=model)
            for name, model in (("first", "big"), ("second", "small"))
        ]
        assert (await Agent(targets, agents=[scout]).run("Look")).output == "Done."


async def other() -> int:
    """Another tool."""
    return 1


def named(name: str = "x", **more: Any) -> SubAgent:
    return ANY(name=name, **({"description": "Works."} | more))


@pytest.mark.parametrize(
    ("agents", "text"),
    [
        ([named("no spaces please")], "'no spaces please' can't be a name"),
        ([named(description=" ")], "give 'x' a description"),
        ([named(), named()], "two are named 'x'"),
        ([named(model="gpt")], "the model of 'x' is none of the agent's models"),
        ([named(tools=[tool(name="add")(other)])], "'x' has another tool named 'add'"),
        ([named(tools=[tool(name="delegate")(other)])], "'delegate' can't be the name of one of your tools"),
    ],
    ids=range(6),
)
def test_a_sub_agent_that_cannot_work_is_refused_by_name(agents: list[SubAgent], text: str) -> None:
    target = Target(name="main", wire="chat", base_url="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(ConfigurationError, match=f"agents: {text}"):
        Agent(target, tools=[add], agents=agents)
    assert Agent(target, tools=[add], agents=[named(tools=[add])]), "they can share a tool"
