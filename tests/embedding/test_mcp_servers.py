"""MCP servers of an embedded agent: their tools, approvals, and a server that can't be connected."""

import sys
from pathlib import Path

import pytest

from features.mcp_client.scene import SERVERS
from holdfast import Agent, ConfigurationError, McpServerSettings, PendingApproval, SubAgent
from holdfast.events import ToolEnded
from holdfast.testing import Call, Say, ScriptedModel

GOOD = McpServerSettings(name="good", command=(sys.executable, str(SERVERS / "good.py")))


async def test_the_first_call_of_the_model_has_the_tools_of_the_servers_and_each_use_is_asked_about(
    tmp_path: Path,
) -> None:
    """P8: the program chose the server, and not what its tools do."""
    asked: list[tuple[str, object]] = []

    def decide(approval: PendingApproval) -> bool:
        asked.append((approval.tool, approval.arguments))
        return True

    model = ScriptedModel([Call("mcp__good__add", a=2, b=3), Say("5")])
    agent = Agent(model, mcp_servers=[GOOD], on_approval=decide, store=tmp_path / "talk.db")
    result = await agent.run("What is 2 + 3?")
    assert [one.result for one in result.events if isinstance(one, ToolEnded)] == ["5"]
    assert asked == [("mcp__good__add", {"a": 2, "b": 3})]


async def test_an_agent_with_sub_agents_has_the_tools_of_its_servers_and_they_have_not() -> None:
    helper = SubAgent(name="helper", description="Helps.")
    model = ScriptedModel([Call("delegate", agent="helper", task="Help"), Say("Helped."), Say("Done.")])
    await Agent(model, mcp_servers=[GOOD], agents=[helper]).run("Help")
    assert "mcp__good__add" in str(model.requests[0]["tools"])
    assert "tools" not in model.requests[1]


async def test_a_server_that_cannot_be_connected_is_an_error_of_its_argument() -> None:
    gone = McpServerSettings(name="gone", command=("/nowhere/server",))
    with pytest.raises(ConfigurationError, match="mcp_servers: MCP server 'gone' isn't available"):
        await Agent(ScriptedModel([Say("never")]), mcp_servers=[gone]).run("hi")
