"""What tools keep whole: it holds no secret, like the events that name it."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.world import Effect, process, send, tool_ends
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.interfaces.tool import ToolCall, ToolResult
from holdfast.redaction import Redactor
from stores import MemoryStore


@dataclass(slots=True)
class KeepsWhole(Effect):
    """A tool whose result is a blob."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args
        return ToolResult("too long to show", blob=await call.blobs.put_blob(self.receiver[0].encode()))


async def test_what_a_tool_keeps_whole_holds_no_secret_either() -> None:
    """P11: the whole output can be fetched by name, and an export carries it away."""
    secret = "key-of-somebody-else"  # noqa: S105  # it is to be seen nowhere
    tool = KeepsWhole("keep", [f"long output with {secret} in it"])
    async with (
        ChaosServer([CallTool("keep", {})], [Say("kept")]) as chaos,
        process(chaos, tool, secrets=Redactor([secret])) as world,
    ):
        await send(world)
        ended = tool_ends(await world.until("s", e.RunEnded))
        assert await world.store.blob(ended[0].blob) == b"long output with [redacted] in it"


async def test_what_is_kept_already_is_found_as_it_is() -> None:
    clean = MemoryStore(redactor=Redactor(["key-of-somebody"]))
    name = await clean.put_blob(b"a picture")
    assert await clean.keep_blob(name)
    assert await clean.blob(name) == b"a picture"
    assert await clean.put_blob(b"a picture") == name
