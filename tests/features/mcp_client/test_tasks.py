"""Tools that a server runs as tasks."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from typing_extensions import override

from features.mcp_client.asking import answering
from features.mcp_client.scene import McpCall, named, run, servers
from features.mcp_client.web import Web, serving
from tools.calls import until
from tools.loops import ON_BOTH_LOOPS

TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
FORM = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Really?",
        "requestedSchema": {
            "type": "object",
            "properties": {"sure": {"type": "boolean"}},
            "required": ["sure"],
        },
    },
}


@dataclass
class TaskWeb(Web):
    """A server whose tool is a task, of the older revision or of the newer."""

    modern: bool = False
    polls: int = 0
    stays: bool = False
    asks: bool = False
    params: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @override
    async def result(self, request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        del request
        body = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in {"initialize", "server/discover"}:
            return web.json_response(body | self._hello(message))
        self.params.append(message.get("params") or {})
        answers = {
            "tools/list": self._tools,
            "tools/call": self._created,
            "tasks/get": self._got,
            "tasks/result": lambda: {"content": [{"type": "text", "text": "done at last"}]},
            "tasks/cancel": lambda: {"taskId": "t-1", "status": "cancelled", "ttl": None, **TIMES},
            "tasks/update": lambda: {"resultType": "complete"},
        }
        return web.json_response(body | {"result": answers[message["method"]]()})

    def _hello(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.modern and message["method"] == "initialize":
            return {"error": {"code": -32601, "message": "Method not found"}}
        about: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
        if self.modern:
            complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            return {"result": {**about, **complete, "supportedVersions": ["2026-07-28"]}}
        return {"result": {**about, "protocolVersion": message["params"]["protocolVersion"]}}

    def _tools(self) -> dict[str, Any]:
        tool: dict[str, Any] = {"name": "slow", "inputSchema": {"type": "object"}}
        if self.modern:
            return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
        return {"tools": [{**tool, "execution": {"taskSupport": "required"}}]}

    def _state(self, status: str) -> dict[str, Any]:
        return {"taskId": "t-1", "status": status, "statusMessage": f"{status}…", **TIMES}

    def _created(self) -> dict[str, Any]:
        if self.modern:
            return {"resultType": "task", "ttlMs": 1000, "pollIntervalMs": 1, **self._state("working")}
        return {"task": {"ttl": 1000, "pollInterval": 1, **self._state("working")}}

    def _got(self) -> dict[str, Any]:
        self.polls += 1
        if self.stays or self.polls == 1:
            return {"ttl": None, "pollInterval": 1, "pollIntervalMs": 1, **self._state("working")}
        if self.asks and "tasks/update" not in self.seen:
            return {"pollIntervalMs": 1, "inputRequests": {"q": FORM}, **self._state("input_required")}
        done = {"content": [{"type": "text", "text": "done at last"}]}
        return {"ttl": None, "result": done, **self._state("completed")}


async def test_a_tool_that_must_be_a_task_is_created_polled_and_fetched(call: McpCall) -> None:
    async with serving(TaskWeb()) as at, servers(at.config()) as of:
        assert (await run(of, "slow", call, label="web")).text == "done at last"
        assert [one for one in at.seen if "task" in one] == ["tasks/get", "tasks/get", "tasks/result"]
        created = next(one for one in at.params if "arguments" in one)
        assert created["task"]["ttl"] > 0
        assert "task t-1" in call.said
        assert "working…" in call.said


async def test_a_task_of_the_newer_revision_asks_and_brings_its_result(tmp_path: Path) -> None:
    async with serving(TaskWeb(modern=True, asks=True)) as at, servers(at.config()) as of:
        call = answering(tmp_path, "Yes")
        assert (await run(of, "slow", call, label="web")).text == "done at last"
        assert "Really?" in call.asked[0][0]
        (update,) = (one for one in at.params if "inputResponses" in one)
        assert update["inputResponses"]["q"]["content"] == {"sure": True}


@ON_BOTH_LOOPS
async def test_a_stop_cancels_the_task_and_its_end_is_unknown(call: McpCall) -> None:
    async with serving(TaskWeb(stays=True)) as at, servers(at.config()) as of:
        tool = await named(of, label="web", tool="slow")
        running = asyncio.create_task(tool.run({}, call))
        await until(lambda: at.polls > 1)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert "tasks/cancel" in at.seen
