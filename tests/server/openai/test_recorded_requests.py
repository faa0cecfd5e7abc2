"""Requests that real packages sent, to the agent: nothing is dropped on the way to the model."""

from typing import Any

import pytest

from holdfast.chaos import ChaosServer, Say
from server.recorded import PROGRAMS, RECORDED, Recorded
from serving import served, target_of

NAMES = [
    name
    for name, requests in RECORDED.items()
    if not name.startswith(PROGRAMS) and requests[0].wire != "anthropic"
]


def tool_names(fields: dict[str, Any]) -> set[str]:
    return {tool.get("function", tool)["name"] for tool in fields.get("tools") or []}


def schema_in(fields: dict[str, Any]) -> Any:
    """The JSON schema that an answer must follow, where either protocol has it."""
    chat = (fields.get("response_format") or {}).get("json_schema") or {}
    flat = (fields.get("text") or {}).get("format") or {}
    return chat.get("schema") or flat.get("schema")


def results_in(asked: Recorded) -> list[str]:
    """What the client's own tools returned."""
    fields = asked.fields
    items = fields.get("messages") or fields.get("input")
    if not isinstance(items, list):
        return []
    results = [one.get("content") for one in items if one.get("role") == "tool"]
    return results + [one.get("output") for one in items if one.get("type") == "function_call_output"]


@pytest.mark.parametrize("name", NAMES)
async def test_the_model_gets_the_tools_the_results_and_the_schema_that_a_package_sends(name: str) -> None:
    """P12: on a run of its own, since nobody here knows the calls that the results are for."""
    async with (
        ChaosServer([Say('{"city":"Bern","celsius":21}')], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        for asked in RECORDED[name]:
            body = asked.bytes_for("holdfast")
            answer = await server.call("POST", asked.path, body=body, headers=asked.headers)
            assert answer.status == 200, answer.body
            assert b"celsius" in answer.body
            sent: Any = chaos.seen.requests[-1].body
            assert tool_names(asked.fields) <= tool_names(sent)
            assert schema_in(sent) == schema_in(asked.fields)
            told = [message["content"] for message in sent["messages"] if message["role"] == "tool"]
            assert told == results_in(asked)
