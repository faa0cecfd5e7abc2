"""A small MCP server over HTTP inside the test, which misbehaves as it is told."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.flow import MESSAGE_BYTES_MAX


@dataclass
class Web:
    """The server, what it is to do, and what it saw."""

    url: str = ""
    wish: str = ""
    elsewhere: str = ""
    sessions: int = 0
    forgotten: set[str] = field(default_factory=set[str])
    seen: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def config(self, **more: Any) -> McpServerConfig:
        return McpServerConfig(name="web", url=self.url, **more)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if request.method == "GET":
            return web.Response(status=405)
        if request.method == "DELETE":
            self.seen.append("goodbye")
            return web.Response(status=200)
        message = await request.json()
        self.seen.append(message["method"])
        if request.headers.get("mcp-session-id") in self.forgotten:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        return await self.result(request, message)

    async def result(self, request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        match message["method"]:
            case "initialize":
                return await self._greeting(message)
            case "tools/list":
                tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
                return _json(message, {"tools": tools})
            case "tools/call":
                return await self._called(request, message)
            case _:
                return _json(message, {})

    async def _greeting(self, message: dict[str, Any]) -> web.StreamResponse:
        match self.wish:
            case "redirect":
                return web.Response(status=307, headers={"location": self.elsewhere})
            case "locked":
                return web.Response(status=401, text="who are you?")
            case "hang":
                await self.gate.wait()
            case _:
                self.sessions += 1
        result: dict[str, Any] = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }
        return _json(message, result, **{"mcp-session-id": f"session-{self.sessions}"})

    async def _called(self, request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        match self.wish:
            case "huge":
                return _said(message, "x" * (MESSAGE_BYTES_MAX + 1))
            case "intricate":
                return _json(message, _crowd(100_000))
            case "event":
                return _event(message, _crowd(0), end=b"\n")
            case "intricate_event":
                return _event(message, _crowd(100_000), end=b"\r\n")
            case "packed":
                response = _said(message, "x" * 1_000_000)
                response.enable_compression(web.ContentCoding.gzip)
                return response
            case "cut" | "cut_body":
                return await _cut_off(request, body=self.wish == "cut_body")
            case "hang":
                await self.gate.wait()
                return _said(message, "late")
            case _:
                return _said(message, json.dumps(message["params"]["arguments"]))


WebT = TypeVar("WebT", bound=Web)


def _crowd(size: int) -> dict[str, Any]:
    return {"content": [], "structuredContent": {"a": [0] * size}}


def _event(message: dict[str, Any], result: dict[str, Any], *, end: bytes) -> web.Response:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    lines = [b": hello", b"", b"event: message", b"data: " + body, b"", b""]
    return web.Response(body=end.join(lines), content_type="text/event-stream")


async def _cut_off(request: web.Request, *, body: bool) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "100"})
    if body:
        await response.prepare(request)
        await response.write(b"{")
    assert request.transport is not None
    request.transport.abort()
    return response


def _json(message: dict[str, Any], result: dict[str, Any], **headers: str) -> web.Response:
    body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return web.json_response(body, headers=headers)


def _said(message: dict[str, Any], text: str) -> web.Response:
    return _json(message, {"content": [{"type": "text", "text": text}]})


@asynccontextmanager
async def serving(at: WebT) -> AsyncGenerator[WebT]:
    """Serve it on a port of its own."""
    app = web.Application()
    app.router.add_route("*", "/mcp", at.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    at.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    try:
        yield at
    finally:
        at.gate.set()
        await runner.cleanup()
