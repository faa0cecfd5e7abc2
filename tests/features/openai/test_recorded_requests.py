"""Requests that real packages sent, to the agent: nothing is dropped on the way to the model."""

import re
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say, Script
from server.recorded import PROGRAMS, RECORDED, Recorded
from serving import served, target_of
from tables import for_each_row

NAMES = [
    name
    for name, requests in RECORDED.items()
    if not name.startswith(PROGRAMS) and requests[0].wire != "anthropic"
]


def tool_names(fields: Any) -> set[str]:
    given: list[Any] = fields.get("tools") or []
    return {tool.get("function", tool)["name"] for tool in given}


def schema_in(fields: Any) -> Any:
    """The JSON schema that an answer must follow, where either protocol has it."""
    chat: Any = fields.get("response_format", {})
    flat: Any = fields.get("text", {})
    return chat.get("json_schema", {}).get("schema") or flat.get("format", {}).get("schema")


def results_in(asked: Recorded) -> list[str]:
    """What the client's own tools returned."""
    given: Any = asked.fields.get("messages") or asked.fields["input"]
    items: list[Any] = [] if isinstance(given, str) else given
    results = [one.get("content") for one in items if one.get("role") == "tool"]
    return results + [one.get("output") for one in items if one.get("type") == "function_call_output"]


@for_each_row("name", NAMES)
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


async def test_open_webui_chats_in_one_session_and_its_tasks_have_no_tools() -> None:
    """P13: a task is known by its header; and the client's `ask_user` is offered in place of ours."""
    recorded = RECORDED["open-webui"]
    script: list[Script] = [[Say("You said: hello")], [CallTool("get_current_timestamp", {})]]
    script += [[Say('The tool says: {"current_timestamp"')], [Say("Done.")]]
    chats = sorted((one for one in recorded if one.fields.get("tools")), key=lambda one: len(one.body))
    tasks = [one for one in recorded if not one.fields.get("tools")]
    async with (
        ChaosServer(*script, after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        sessions: list[str] = []
        call_id = ""
        for asked in chats:
            body = re.sub(rb"call_[0-9a-f]+_0", call_id.encode(), asked.bytes_for("holdfast"))
            answer = await server.call("POST", asked.path, body=body, headers=asked.headers)
            assert answer.status == 200, answer.body
            sessions.append(answer.headers["X-Hermes-Session-Id"])
            if found := re.search(rb"call_[0-9a-f]+_0", answer.body):
                call_id = found[0].decode()
        assert len(chats) == 4
        assert len(set(sessions)) == 1
        sent: Any = chaos.seen.requests[0].body
        assert [tool["function"]["name"] for tool in sent["tools"]].count("ask_user") == 1
        for asked in tasks:
            body = asked.bytes_for("holdfast")
            answer = await server.call("POST", asked.path, body=body, headers=asked.headers)
            assert answer.headers["X-Hermes-Session-Id"] != sessions[0]
            sent = chaos.seen.requests[-1].body
            assert "tools" not in sent
    assert len({one.headers["x-holdfast-task"] for one in tasks}) == 3
