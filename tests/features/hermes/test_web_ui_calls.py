"""Every call that hermes-webui's server makes to an API server, with its headers and bodies.

Its source isn't on any package registry, so these are written from the calls in `api/gateway_chat.py`,
`api/runner_client.py`, `api/agent_health.py` and its cache of capabilities.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from features.hermes_import.home import PIXEL
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Think, Wait
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of

KEY = "key-of-the-api-server"
READS_MAX = 65_536  # bytes of an answer


def headers(session_id: str = "", *, accept: str = "application/json") -> dict[str, str]:
    named = {"X-Hermes-Session-Id": session_id, "X-Hermes-Session-Key": f"webui:{session_id}"}
    return {
        "Authorization": f"Bearer {KEY}",
        "User-Agent": "Python-urllib/3.11",
        "Connection": "close",
        "Content-Type": "application/json",
        "Accept": accept,
        **(named if session_id else {}),
    }


def setting(tool: Counted) -> Setting:
    options = ServerOptions(keys=(ApiKey("main", KEY),))
    return Setting(options=options, tools=(tool,), judge=AsksAbout(frozenset({"touch"})))


async def events(server: Served, method: str, path: str, body: Any = None) -> AsyncIterator[dict[str, Any]]:
    """A stream as it reads it: line by line, each under its own name or that of its SSE event."""
    data = json.dumps(body).encode() if body else None
    accept = headers("web-1", accept="text/event-stream")
    async with server.http.request(method, server.url + path, headers=accept, data=data) as answer:
        assert answer.status == 200, await answer.text()
        name = "message"
        async for raw in answer.content:
            line = raw.decode().strip()
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:") and (data := line[5:].strip()) != "[DONE]":
                payload = json.loads(data)
                yield {**payload, "name": payload.get("event") or payload.get("type") or name, "sse": name}
            elif not line:
                name = "message"


async def answered(server: Served, run_id: str, approval_id: str, choice: str = "once") -> tuple[int, Any]:
    body = {"choice": choice, "approval_id": approval_id}
    sent = headers() | {"User-Agent": "Hermes-WebUI-RunnerClient"}
    answer = await server.call("POST", f"/v1/runs/{run_id}/approval", body=body, headers=sent)
    return answer.status, answer.json


async def test_it_finds_the_server_alive_and_able_to_ask_for_approvals() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting(Counted())) as server:
        bearer = {"Authorization": f"Bearer {KEY}", "User-Agent": "Python-urllib/3.11"}
        found = await server.call("GET", "/v1/capabilities", headers=bearer)
        assert len(found.body) < READS_MAX
        features = found.json["features"]
        wanted = ("approval_events", "run_approval_response", "approval_identity_v1")
        assert [features[name] for name in wanted] == [True, True, True]
        detailed = await server.call("GET", "/health/detailed", headers=bearer)
        assert (detailed.status, detailed.json["gateway_state"]) == (200, "running")
        assert len(detailed.body) < READS_MAX
        for path in ("/health", "/v1/health"):
            assert (await server.call("GET", path)).status == 200
        assert (await server.call("GET", "/health/detailed")).status == 401


async def test_it_runs_a_turn_with_an_approval_over_the_runs_api() -> None:
    """P8: by the id of the approval."""
    tool = Counted()
    turn = [Think("hm"), Say("I look."), CallTool("touch", {"path": "a.txt"})]
    async with (
        ChaosServer(turn, [Say(" Done.")]) as chaos,
        served(target_of(chaos), setting=setting(tool)) as server,
    ):
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]
        earlier = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello, person."},
        ]
        body = {
            "model": "default",
            "input": [{"role": "user", "content": parts}],
            "provider": "main",
            "reasoning_effort": "high",
            "session_id": "web-1",
            "instructions": "You are in the web UI.",
            "conversation_history": earlier,
        }
        started = await server.call("POST", "/v1/runs", body=body, headers=headers("web-1"))
        assert started.status == 202, started.body
        run_id = started.json["run_id"]
        text = ""
        tools: list[tuple[str, str, bool]] = []
        async for event in events(server, "GET", f"/v1/runs/{run_id}/events"):
            match event["name"]:
                case "message.delta":
                    text += event["delta"]
                case "tool.started" | "tool.completed":
                    tools.append((event["name"], event["tool"], bool(event.get("error"))))
                    assert event["tool_call_id"]
                case "approval.request":
                    assert (event["run_id"], event["tool"]) == (run_id, "touch")
                    assert event["command"].startswith("touch")
                    assert event["description"]
                    assert "always" in event["choices"]
                    status, settled = await answered(server, run_id, event["approval_id"])
                    assert (status, settled["resolved"]) == (200, 1)
                case "run.completed":
                    assert event["output"] == " Done."
                    assert event["usage"]["input_tokens"] > 0
                case _:
                    pass
        assert text == "I look. Done."
        assert tools == [("tool.started", "touch", False), ("tool.completed", "touch", False)]
        sent: Any = chaos.seen.request(1).body
        said = json.dumps(sent["messages"])
        assert all(
            one in said for one in ("You are in the web UI.", "Hello, person.", "What is this?", PIXEL)
        )
        assert (sent["model"], sent["reasoning_effort"]) == ("m", "high")


async def test_it_runs_a_turn_with_an_approval_over_chat_completions() -> None:
    """It takes the run's id from the frame, and sends an empty id for the only approval."""
    tool = Counted()
    async with (
        ChaosServer([Say("I look."), CallTool("touch", {"path": "a.txt"})], [Say(" Done.")]) as chaos,
        served(target_of(chaos), setting=setting(tool)) as server,
    ):
        system = {"role": "system", "content": "You are in the web UI."}
        body = {
            "model": "default",
            "stream": True,
            "provider": "openrouter",
            "reasoning_effort": "high",
            "messages": [system, {"role": "user", "content": "Look."}],
        }
        text = ""
        progress: list[tuple[str, str]] = []
        async for event in events(server, "POST", "/v1/chat/completions", body):
            if event["name"] == "approval.request":
                assert event["command"].startswith("touch")
                assert event["approval_id"]
                assert event["allow_permanent"] is True
                assert (await answered(server, "run_0", ""))[0] == 404
                status, settled = await answered(server, event["run_id"], "")
                assert (status, settled["resolved"]) == (200, 1)
            elif event["sse"] == "hermes.tool.progress":
                progress.append((event["tool"], event["status"]))
                assert event["toolCallId"]
            else:
                text += event["choices"][0]["delta"].get("content") or ""
        assert progress == [("touch", "running"), ("touch", "completed")]
        assert text.split() == ["I", "look.", "Done."]
        again = await server.call("POST", "/v1/chat/completions", body=body, headers=headers("web-1"))
        assert again.headers["X-Hermes-Session-Id"] == "web-1"
        sent: Any = chaos.seen.requests[-1].body
        assert [one["role"] for one in sent["messages"]].count("user") == 2  # the server knows the first turn


async def test_its_stop_is_acknowledged_and_ends_the_stream() -> None:
    hold = Gate()
    async with (
        ChaosServer([Say("hal"), Wait(hold)]) as chaos,
        served(target_of(chaos), setting=setting(Counted())) as server,
    ):
        body = {"model": "default", "input": "Look.", "session_id": "web-1"}
        started = await server.call("POST", "/v1/runs", body=body, headers=headers("web-1"))
        run_id = started.json["run_id"]
        names: list[str] = []
        async for event in events(server, "GET", f"/v1/runs/{run_id}/events"):
            names.append(event["name"])
            if event["name"] == "message.delta":
                stopped = await server.call("POST", f"/v1/runs/{run_id}/stop", body=b"{}", headers=headers())
                assert stopped.status == 200
        assert names[-1] == "run.cancelled"
