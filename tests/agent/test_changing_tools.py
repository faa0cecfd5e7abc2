"""Tools that come and go while runs are under way, such as those of MCP servers."""

from agent.world import Effect, asks_about, process, send, tool_ends
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.interfaces.feature import SessionTools
from holdfast.interfaces.tool import Tool, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.asks import ApprovalVerdict
from holdfast.tools.registry import Registry
from stores import MemoryStore


def with_tool(tool: Tool) -> dict[str, SessionTools]:
    return {"mcp_client": lambda _: (tool,)}


async def test_a_call_of_such_a_tool_that_a_restart_cut_off_goes_on() -> None:
    """P6: the first thing that the new process does for the run is to finish this call."""
    disk, outside = MemoryDisk(), list[str]()
    tool = Effect("remote", outside, ToolTraits(idempotent=True))

    async with ChaosServer([CallTool("remote", {})], [Say("done")]) as chaos:
        judge = asks_about("remote")
        async with process(
            chaos, store=MemoryStore(disk), judge=judge, session_tools=with_tool(tool)
        ) as world:
            await send(world)
            await world.until("s", e.ApprovalAsked)
        async with process(
            chaos,
            store=MemoryStore(disk),
            judge=asks_about(),
            session_tools=with_tool(tool),
        ) as world:
            [asked] = [r.event for r in await world.log("s") if isinstance(r.event, e.ApprovalAsked)]
            answer = ApprovalVerdict("once")
            await world.inbox.answer(asked.approval_id, answer)
            log = await world.until("s", e.RunEnded)
    assert [end.result for end in tool_ends(log)] == ["remote done"]
    assert outside == ["remote {}"]


async def test_a_run_does_not_change_the_tools_of_others() -> None:
    """P10: what one run sees of a server that comes and goes is its own matter."""
    registry, outside = Registry(), list[str]()
    tool = Effect("remote", outside)
    async with (
        ChaosServer([CallTool("remote", {})], [Say("done")]) as chaos,
        process(chaos, registry=registry, session_tools=with_tool(tool)) as world,
    ):
        await send(world)
        await world.until("s", e.RunEnded)
    assert outside == ["remote {}"]
    assert registry.get("remote") is None
