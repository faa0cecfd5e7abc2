"""AG-UI requests that are wrong, late or for another thread: each gets a clear answer and changes nothing."""

import json
from typing import Any

import pytest

from features.ag_ui.client import WEATHER, asked, resumed, text_of, told
from holdfast.chaos import CallTool, ChaosServer, Say
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of


async def refused(server: Served, body: Any) -> tuple[int, str]:
    """The status and the code of the error."""
    status, answer = await server.post("/ag-ui", body)
    return status, answer["error"]["code"]


@pytest.mark.parametrize("role", [["user"], {"a": 1}, 5, None, "wizard"], ids=str)
async def test_a_role_of_any_type_is_refused_and_no_bug(role: object) -> None:
    """P12."""
    message = {"id": "1", "role": role, "content": "x"}
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        status, _ = await refused(server, {**asked("hi"), "messages": [message]})
        _, sessions = await server.get("/api/sessions")
    assert (status, sessions["data"]) == (400, [])


async def test_a_result_sent_to_another_thread_continues_no_run_of_this_one() -> None:
    """P12: the other thread has a run of its own, and this one still waits for its result."""
    call = [CallTool("weather", {})]
    async with (
        ChaosServer(call, [Say("there")], [Say("here")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        first = await told(server, asked("hi", tools=[WEATHER]))
        [pending] = first[-1][1]["outcome"]["pendingToolCallIds"]
        function = {"name": "weather", "arguments": "{}"}
        body = asked("hi", run="r2", tools=[WEATHER])
        body["messages"] += [
            {"id": "2", "role": "assistant", "toolCalls": [{"id": pending, "function": function}]},
            {"id": "3", "role": "tool", "toolCallId": pending, "content": "sun"},
        ]
        elsewhere = await told(server, {**body, "threadId": "other"})
        here = await told(server, body)
    about = [frames[0][1]["metadata"]["holdfast"]["session_id"] for frames in (elsewhere, here)]
    assert (about, text_of(elsewhere), text_of(here)) == (["other", "t"], "there", "here")


async def test_an_answer_that_is_not_offered_settles_none_of_the_others() -> None:
    """P8, P12."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    two = [CallTool("touch", {"n": 1}), CallTool("touch", {"n": 2})]
    async with (
        ChaosServer(two, [Say("done")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        await told(server, asked("hi"))
        asks: list[Any] = []
        while len(asks) < len(two):
            asks = (await server.get("/v1/approvals"))[1]["data"]
        first, second = (one["approval_id"] for one in asks)

        def answers(*given: tuple[str, Any]) -> dict[str, Any]:
            entries = [{"interruptId": one, "status": "resolved", "payload": what} for one, what in given]
            return {**resumed(first, True), "resume": entries}

        unknown = await refused(server, answers((first, True), (second, "perhaps")))
        twice = await refused(server, answers((first, True), (first, False)))
        both = await refused(server, answers((first, {"choice": "once", "approved": False})))
        assert both == (400, "invalid_request")
        still = (await server.get("/v1/approvals"))[1]["data"]
        assert (unknown, twice) == ((400, "invalid_approval_choice"), (400, "invalid_request"))
        assert (len(still), tool.done) == (len(two), [])
        end = await told(server, answers((first, False), (second, True)))
        late = await told(server, answers((first, True), (second, False)))
    assert json.dumps(tool.done) == '[{"n": 2}]'
    assert (text_of(end), text_of(late)) == ("done", "done")
