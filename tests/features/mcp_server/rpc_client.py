"""A bare client of /mcp: each message that the server sends is checked with the protocol's own package."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_types import methods

from serving import Answer, Served

OLD, NEW = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
TASKS: dict[str, Any] = {"extensions": {f"{META}tasks": {}}}
FORMS: dict[str, Any] = {"elicitation": {}}
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
Message = dict[str, Any]
Frames = list[tuple[str, Message]]


@dataclass
class RpcClient:
    """One client; an old one has a session, and a new one says everything in each request."""

    server: Served
    version: str = NEW
    can: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    session: str = ""
    ids: int = 0

    async def begun(self) -> "RpcClient":
        """With a session, if it needs one."""
        if self.version == OLD:
            about = {
                "protocolVersion": OLD,
                "capabilities": self.can,
                "clientInfo": {"name": "t", "version": "1"},
            }
            answer = await self.posted(self.message("initialize", about))
            assert answer.status == 200, answer.body
            self.session = answer.headers["Mcp-Session-Id"]
        return self

    def message(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> Message:
        """A request."""
        self.ids += 1
        given = dict(params or {})
        if self.version == NEW:
            own = {f"{META}protocolVersion": NEW, f"{META}clientCapabilities": self.can}
            given["_meta"] = own | given.get("_meta", {})
        return {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": given, **more}

    def headers_of(self, message: Message) -> dict[str, str]:
        """What goes with it."""
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self.version == NEW and "method" in message:
            headers |= {"Mcp-Protocol-Version": NEW, "Mcp-Method": message["method"]}
            if name := NAMED.get(message["method"]):
                headers["Mcp-Name"] = str(message["params"].get(name))
        elif self.session:
            headers |= {"Mcp-Protocol-Version": OLD, "Mcp-Session-Id": self.session}
        return headers | dict(self.headers)

    async def posted(self, message: Any, **more: str) -> Answer:
        """The whole answer to any body."""
        known = self.headers_of(cast("Message", message) if isinstance(message, dict) else {})
        return await self.server.call("POST", "/mcp", body=message, headers=known | more)

    async def asked(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> Message:
        """The answer to a request, with a result or an error."""
        message = self.message(method, params)
        answer = await self.posted(message, **headers)
        if answer.headers["Content-Type"].startswith("application/json"):
            return self._checked(method, answer.json)
        return [self._checked(method, said) for _, said in parsed(answer.body) if said.get("id") == self.ids][
            -1
        ]

    async def result(self, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> Message:
        """The result of a request."""
        said = await self.asked(method, params, **headers)
        assert "result" in said, said
        return said["result"]

    async def tool(self, name: str, /, _meta: Message | None = None, **arguments: Any) -> Message:
        """The result of a tool."""
        meta = {"_meta": _meta} if _meta else {}
        return await self.result("tools/call", {"name": name, "arguments": arguments, **meta})

    async def stream(self, message: Message, **headers: str) -> AsyncGenerator[tuple[str, Message]]:
        """The messages of a stream as they come, with their ids; those without data too."""
        sent = self.headers_of(message) | headers
        url = f"{self.server.url}/mcp"
        async with self.server.http.post(url, data=json.dumps(message), headers=sent) as answer:
            assert answer.status == 200, await answer.text()
            async for one in _frames(answer.content):
                yield one

    async def got(self, **headers: str) -> AsyncGenerator[tuple[str, Message]]:
        """The messages of the stream that a client opens itself."""
        known = {"Accept": "text/event-stream", "Mcp-Session-Id": self.session, **self.headers, **headers}
        async with self.server.http.get(f"{self.server.url}/mcp", headers=known) as answer:
            assert answer.status == 200, await answer.text()
            async for one in _frames(answer.content):
                yield one

    async def whole(self, frames: AsyncGenerator[tuple[str, Message]]) -> Frames:
        """All frames up to the end."""
        async with aclosing(frames) as found:
            return [one async for one in found]

    def _checked(self, method: str, said: Message) -> Message:
        of_task = said.get("result", {}).get("resultType") == "task" or method.startswith("tasks/")
        if "result" in said and not of_task:
            methods.validate_server_result(method, self.version, said["result"])
        return said


async def _frames(lines: Any) -> AsyncGenerator[tuple[str, Message]]:
    cursor, data = "", None
    async for line in lines:
        if line.startswith(b"id: "):
            cursor = line[4:].decode().strip()
        elif line.startswith(b"data:"):
            data = line[5:].strip()
        elif line == b"\n" and data is not None:
            yield cursor, json.loads(data) if data else {}
            cursor, data = "", None


def parsed(body: bytes) -> Frames:
    """The messages in the body of a stream that has ended."""
    found: Frames = []
    for block in body.split(b"\n\n"):
        cut = [line.partition(b": ") for line in block.split(b"\n") if line]
        fields = {name: value for name, _, value in cut}
        if fields.get(b"data"):
            found.append((fields.get(b"id", b"").decode(), json.loads(fields[b"data"])))
    return found
