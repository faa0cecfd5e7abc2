"""A client of the AG-UI protocol, whose own package checks each event."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

from serving import Served

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
WEATHER: Any = {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}
Told = list[tuple[str, dict[str, Any]]]


def asked(text: str, *, run: str = "r1", **more: Any) -> dict[str, Any]:
    return {
        "threadId": "t",
        "runId": run,
        "messages": [{"id": "m1", "role": "user", "content": text}],
        **more,
    }


def resumed(interrupt: str, payload: Any, *, run: str = "r2", status: str = "resolved") -> dict[str, Any]:
    answer = {"interruptId": interrupt, "status": status, "payload": payload}
    return {"threadId": "t", "runId": run, "messages": [], "resume": [answer]}


async def frames(
    server: Served, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """The frames of a stream with their ids, each checked by the protocol's package."""
    sent = {"Content-Type": "application/json", **(headers or {})}
    async with server.http.post(f"{server.url}/ag-ui", data=json.dumps(body), headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        cursor = ""
        async for line in answer.content:
            if line.startswith(b"id: "):
                cursor = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                EVENTS.validate_python(event)
                yield cursor, event
                cursor = ""


async def told(server: Served, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Told:
    return [one async for one in frames(server, body, headers)]


def text_of(frames: Told) -> str:
    return "".join(event["delta"] for _, event in frames if event["type"] == "TEXT_MESSAGE_CHUNK")
