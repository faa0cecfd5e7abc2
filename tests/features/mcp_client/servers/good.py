"""A well-behaved server made with the SDK's own classes, over stdio or, given a port, over HTTP."""

import base64
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    TextContent,
    TextResourceContents,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("good")
gate = anyio.Event()


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def count_to_three(ctx: Context) -> str:
    """Tells of its progress, and ends when `open_gate` is called."""
    await ctx.report_progress(1, 3, "one")
    await gate.wait()
    await ctx.report_progress(3, 3, "three")
    return "counted"


@server.tool()
def open_gate() -> str:
    """Lets `count_to_three` go on."""
    gate.set()
    return "open"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ToolError("no such thing")


@server.tool()
def picture() -> Image:
    """An image."""
    return Image(data=PNG, format="png")


@server.tool()
def resources() -> CallToolResult:
    """Embedded resources."""
    text = TextResourceContents(uri="file:///a.txt", text="the text of a")
    data = BlobResourceContents(uri="file:///b.bin", blob=base64.b64encode(b"\0\1\2").decode())
    return CallToolResult(
        content=[EmbeddedResource(resource=text), EmbeddedResource(resource=data)],
        structured_content={"n": 2},
    )


@server.tool()
async def wait_for_cancel(told: str, ctx: Context) -> str:
    """Writes a file when it is cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(told).write_text("cancelled", encoding="utf-8")  # noqa: ASYNC240 - a test's server may block
        raise
    return "never"


@server.tool()
async def grow(ctx: Context) -> list[TextContent]:
    """Adds a tool."""
    server.add_tool(_grown, name="grown", description="It was not there before.")
    await ctx.request_context.session.send_tool_list_changed()
    return [TextContent(text="grown")]


def _grown() -> str:
    return "I am new."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
