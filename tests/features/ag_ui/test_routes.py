"""Runs over AG-UI: each event fits the protocol's own package, and any reader can resume."""

import json
from collections.abc import Mapping
from typing import Any

from features.ag_ui.client import WEATHER, Told, asked, frames, resumed, text_of, told
from holdfast.chaos import CallTool, ChaosServer, Hang, Say, Status
from holdfast.server.options import ApiKey, Limits, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of


def asking(options: ServerOptions) -> Setting:
    return Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})), options=options)


def types(frames: Told) -> list[str]:
    """The types in order, each once in a row."""
    names = [event["type"] for _, event in frames if event["type"] != "CUSTOM"]
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


async def test_a_run_is_told_as_events_of_the_protocol() -> None:
    script = [Say("I look."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("It's done.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        seen = await told(server, asked("hi"))
    chunks = ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "TOOL_CALL_RESULT", "TEXT_MESSAGE_CHUNK"]
    assert types(seen) == ["RUN_STARTED", *chunks, "RUN_FINISHED"]
    assert (seen[0][1]["threadId"], seen[0][1]["runId"]) == ("t", "r1")
    [call] = [event for _, event in seen if event["type"] == "TOOL_CALL_CHUNK"]
    [result] = [event for _, event in seen if event["type"] == "TOOL_CALL_RESULT"]
    assert (call["toolCallName"], json.loads(call["delta"])) == ("touch", {"n": 1})
    assert result["toolCallId"] == call["toolCallId"]
    messages = dict.fromkeys(event["messageId"] for _, event in seen if event["type"] == "TEXT_MESSAGE_CHUNK")
    assert len(messages) == 2
    assert call["parentMessageId"] == next(iter(messages))
    assert seen[-1][1]["outcome"] == {"type": "success"}
    assert seen[-1][1]["usage"][0]["outputTokens"] > 0


async def test_from_any_cursor_the_rest_is_the_same_and_nothing_is_run_again() -> None:
    """P7, P2: the same request is the same run."""
    counted = Counted()
    script = [Say("one two three"), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("four five")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(counted,))) as server,
    ):
        whole = await told(server, asked("hi"))
        assert await told(server, asked("hi")) == whole
        for at, (cursor, _) in enumerate(whole[:-1]):
            assert await told(server, asked("hi"), {"Last-Event-ID": cursor}) == whole[at + 1 :]
        _, runs = await server.get("/v1/runs")
    assert len(runs["data"]) == len(counted.done) == 1


async def test_another_message_under_the_same_run_id_is_refused_and_an_unknown_run_is_not_begun() -> None:
    async with ChaosServer([Say("ok")]) as chaos, served(target_of(chaos)) as server:
        await told(server, asked("hi"))
        again = await server.call("POST", "/ag-ui", body=asked("something else"))
        assert (again.status, again.code) == (409, "idempotency_key_conflict")
        lost = await server.call("POST", "/ag-ui", body=asked("hi", run="r9"), headers={"Last-Event-ID": "7"})
        assert (lost.status, lost.code) == (409, "run_unknown")
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1


async def test_an_approval_is_an_interrupt_and_its_answer_continues_the_same_run() -> None:
    """P8: exactly this action, by its id; told once more, the answer changes nothing."""
    counted = Counted()
    setting = Setting(tools=(counted,), judge=AsksAbout(frozenset({"touch"})))
    script = [Say("I need to touch it."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        first = await told(server, asked("hi"))
        outcome = first[-1][1]["outcome"]
        [interrupt] = outcome["interrupts"]
        assert (outcome["type"], interrupt["reason"]) == ("interrupt", "approval")
        assert interrupt["responseSchema"]["properties"]["choice"]["enum"][0] == "once"
        [call] = [event for _, event in first if event["type"] == "TOOL_CALL_CHUNK"]
        assert interrupt["toolCallId"] == call["toolCallId"]
        busy = await server.call("POST", "/ag-ui", body=asked("and now?", run="r7"))
        assert (busy.status, busy.code) == (409, "interrupt_open")
        wrong = await server.call("POST", "/ag-ui", body=resumed(interrupt["id"], {"choice": 7}))
        assert (wrong.status, wrong.json["error"]["param"]) == (400, "resume[0].payload")
        assert not counted.done

        second = await told(server, resumed(interrupt["id"], {"choice": "once"}))
        assert types(second) == ["RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_CHUNK", "RUN_FINISHED"]
        assert (text_of(second), second[-1][1]["runId"]) == ("Done.", "r2")
        assert await told(server, resumed(interrupt["id"], {"choice": "once"})) == second
        assert await told(server, asked("hi")) == first
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1
    assert counted.done == [{"n": 1}]


async def test_a_refused_or_dismissed_approval_runs_nothing() -> None:
    for payload, status in ((False, "resolved"), ({"approved": False}, "resolved"), (None, "cancelled")):
        counted = Counted()
        setting = Setting(tools=(counted,), judge=AsksAbout(frozenset({"touch"})))
        async with (
            ChaosServer([CallTool("touch", {"n": 1})], [Say("Then not.")]) as chaos,
            served(target_of(chaos), setting=setting) as server,
        ):
            first = await told(server, asked("hi"))
            [interrupt] = first[-1][1]["outcome"]["interrupts"]
            assert (
                text_of(await told(server, resumed(interrupt["id"], payload, status=status))) == "Then not."
            )
        assert not counted.done


async def test_a_key_without_the_scope_can_not_approve() -> None:
    """P11."""
    counted = Counted()
    options = ServerOptions(keys=(ApiKey("owner", "sk-secret-of-the-owner"),))
    setting = Setting(tools=(counted,), judge=AsksAbout(frozenset({"touch"})), options=options)
    owner = {"Authorization": "Bearer sk-secret-of-the-owner"}
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        _, made = await server.post("/api/keys", {"name": "chat", "scopes": ["chat"]}, **owner)
        chat = {"Authorization": f"Bearer {made['key']}"}
        first = await told(server, asked("hi"), chat)
        [interrupt] = first[-1][1]["outcome"]["interrupts"]
        yes = resumed(interrupt["id"], payload=True)
        refused = await server.call("POST", "/ag-ui", body=yes, headers=chat)
        assert (refused.status, refused.code) == (403, "missing_scope")
        elsewhere = await server.call("POST", "/ag-ui", body=yes | {"threadId": "u"}, headers=owner)
        assert (elsewhere.status, elsewhere.code) == (404, "interrupt_not_found")
        assert not counted.done
        assert text_of(await told(server, yes, owner)) == "Done."


async def test_a_question_is_an_interrupt_too() -> None:
    script = [CallTool("ask_user", {"text": "Which one?", "choices": ["a", "b"]})]
    async with (
        ChaosServer(script, [Say("So b.")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        first = await told(server, asked("hi"))
        [interrupt] = first[-1][1]["outcome"]["interrupts"]
        assert (interrupt["reason"], interrupt["message"]) == ("question", "Which one?")
        assert interrupt["responseSchema"]["properties"]["answer"]["examples"] == ["a", "b"]
        assert text_of(await told(server, resumed(interrupt["id"], {"answer": "b"}))) == "So b."
        assert "b" in json.dumps(chaos.seen.requests[-1].body)


async def test_calls_of_the_front_ends_tools_end_the_stream_and_their_results_continue_the_run() -> None:
    async with (
        ChaosServer([Say("Let me see."), CallTool("weather", {"city": "Bern"})], [Say("Warm.")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        first = await told(server, asked("Is it warm?", tools=[WEATHER]))
        [call] = [event for _, event in first if event["type"] == "TOOL_CALL_CHUNK"]
        pending = first[-1][1]["outcome"]["pendingToolCallIds"]
        assert (call["toolCallName"], pending) == ("weather", [call["toolCallId"]])
        call_of: Any = {
            "id": pending[0],
            "type": "function",
            "function": {"name": "weather", "arguments": "{}"},
        }
        messages = [
            {"id": "m1", "role": "user", "content": "Is it warm?"},
            {"id": "m2", "role": "assistant", "content": "Let me see.", "toolCalls": [call_of]},
            {"id": "m3", "role": "tool", "toolCallId": pending[0], "content": "21"},
        ]
        body: Any = {"threadId": "t", "runId": "r2", "messages": messages, "tools": [WEATHER]}
        second = await told(server, body)
        assert (types(second)[-1], text_of(second)) == ("RUN_FINISHED", "Warm.")
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1


async def test_the_next_message_continues_the_session_and_an_edited_history_replaces_it() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        await told(server, asked("a"))
        first = [
            {"id": "m1", "role": "user", "content": "a"},
            {"id": "m2", "role": "assistant", "content": "ONE"},
        ]
        more = [*first, {"id": "m3", "role": "user", "content": "b"}]
        await told(server, {"threadId": "t", "runId": "r2", "messages": more})
        edited = [*first, {"id": "m4", "role": "user", "content": "c"}]
        await told(server, {"threadId": "t", "runId": "r3", "messages": edited})
        sent: Any = [request.body for request in chaos.seen.requests]
    said = [[one["content"] for one in body["messages"] if one["role"] != "system"] for body in sent]
    assert said == [["a"], ["a", "one", "b"], ["a", "ONE", "c"]]


async def test_a_failure_is_a_run_error() -> None:
    """P4: one true ending."""
    async with (
        ChaosServer([Status(400, message="no such thing")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        failed = await told(server, asked("hi"))
    assert (failed[-1][1]["type"], failed[-1][1]["code"]) == ("RUN_ERROR", "bad_request")
    assert "no such thing" in failed[-1][1]["message"]


async def test_a_reader_who_leaves_stops_the_run_unless_it_is_told_to_detach() -> None:
    """P5; a run that waits for a person is not stopped, because its reader returns with the answer."""
    setting = asking(ServerOptions(limits=Limits(disconnect_grace_s=0.05)))
    hang = [Say("one "), Hang()]
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], hang, hang) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        waiting = await told(server, asked("hi"))
        assert waiting[-1][1]["outcome"]["type"] == "interrupt"
        held = waiting[0][1]["metadata"]["holdfast"]["run_id"]
        detach = {"holdfast": {"on_disconnect": "detach"}}
        kept = await left_early(server, asked("hi", forwardedProps=detach) | {"threadId": "u"})
        last = await left_early(server, asked("hi") | {"threadId": "v"})
        await chaos.seen.until_closed(3)
        assert (await server.ended(last))["status"] == "cancelled"
        # The others were left earlier, so they would have been stopped before it.
        statuses = [(await server.get(f"/v1/runs/{one}"))[1]["status"] for one in (held, kept)]
        assert statuses == ["waiting_for_approval", "running"]
        for one in (held, kept):
            await server.post(f"/v1/runs/{one}/stop")
            await server.ended(one)


async def left_early(server: Served, body: Mapping[str, Any]) -> str:
    """The id of a run whose reader leaves at its first text."""
    stream, run_id = frames(server, body), ""
    async for _, event in stream:
        if event["type"] == "RUN_STARTED":
            run_id = event["metadata"]["holdfast"]["run_id"]
        elif event["type"] == "TEXT_MESSAGE_CHUNK":
            await stream.aclose()
            return run_id
    raise AssertionError("the stream ended without a text")
