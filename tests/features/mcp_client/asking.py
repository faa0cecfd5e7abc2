"""A server of the SDK inside the test, whose tools ask for something, over HTTP or the older SSE."""

import asyncio
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

from features.mcp_client.scene import McpCall
from tools.calls import until


class Trip(BaseModel):
    """A form with a field of each kind."""

    city: str = Field(description="Where to", min_length=2)
    days: int = Field(ge=1, le=30)
    business: bool = False


class Account(BaseModel):
    """A form that no server should send."""

    user: str
    apiKey: str  # noqa: N815  # as servers in TypeScript write it


def asking_server() -> MCPServer:
    """The server."""
    server = MCPServer("asking")

    @server.tool()
    async def book(ctx: Context) -> str:
        """Asks for a form."""
        answer = await ctx.elicit("Where shall it go?", Trip)
        data = answer.data.model_dump() if answer.action == "accept" else None
        return f"{answer.action} {data}"

    @server.tool()
    async def link(ctx: Context) -> str:
        """Asks for a secret."""
        return (await ctx.elicit("Your account?", Account)).action

    @server.tool()
    async def pay(url: str, ctx: Context) -> str:
        """Asks to open a page."""
        answer = await ctx.elicit_url("Pay there.", url, "payment-1")
        return answer.action

    @server.tool()
    async def roots(ctx: Context) -> str:
        """The client's roots."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer revisions have no roots
            found = await ctx.request_context.session.list_roots()  # pyright: ignore[reportDeprecated]
        return " ".join(str(one.uri) for one in found.roots)

    @server.tool()
    def structured() -> dict[str, Any]:
        """Text and structured content."""
        return {"b": 1, "a": [1.0, "x"]}

    del book, link, pay, roots, structured
    return server


@asynccontextmanager
async def serving_sdk(server: MCPServer, *, kind: Literal["http", "sse"] = "http") -> AsyncGenerator[str]:
    """Serve it; the address."""
    app = server.streamable_http_app() if kind == "http" else server.sse_app()
    config = uvicorn.Config(app, port=0, log_level="critical", ws="none", timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)
    task = asyncio.create_task(serving.serve())
    await until(lambda: serving.started)
    port = serving.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"
    finally:
        serving.should_exit = serving.force_exit = True
        await task


@dataclass(kw_only=True)
class AnsweringCall(McpCall):
    """A call whose questions are answered from a list."""

    answers: list[str] = field(default_factory=list[str])
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        self.asked.append((text, choices))
        if not self.answers:
            return await super().ask(text, choices)
        return self.answers.pop(0)


def answering(folder: Path, *answers: str) -> AnsweringCall:
    return AnsweringCall(workspace=folder, answers=list(answers))
