"""`holdfast mcp`, as another agent starts it."""

import json
from pathlib import Path
from typing import Any

from cli.lab import configured, started
from features.mcp_server.rpc_client import OLD
from holdfast.chaos import ChaosServer, Say

BEGIN: dict[str, Any] = {
    "protocolVersion": OLD,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
RUN: dict[str, Any] = {"name": "run_agent", "arguments": {"message": "hi"}}


async def test_another_agent_runs_this_one_on_standard_input_and_output(tmp_path: Path) -> None:
    async with ChaosServer(choose=lambda _: [Say("Hello.")]) as chaos:
        configured(tmp_path, chaos.base_url)
        process = await started(tmp_path, "mcp")
        given = process.stdin
        assert given is not None

        async def answer(line: bytes, rpc_id: int | None) -> dict[str, Any]:
            """The answer to a line; what the server says besides is skipped."""
            given.write(line + b"\n")
            while said := await process.stdout.readline():
                message = json.loads(said)
                if message.get("id") == rpc_id and "method" not in message:
                    return message
            raise AssertionError((await process.stderr.read()).decode())

        async def result(rpc_id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}
            return (await answer(json.dumps(message).encode(), rpc_id))["result"]

        assert (await result(1, "initialize", BEGIN))["serverInfo"]["name"] == "holdfast"
        assert (await answer(b"{", None))["error"]["code"] == -32700
        assert (await result(2, "tools/call", RUN))["content"][0]["text"] == "Hello."
        given.close()
        assert await process.wait() == 0
