"""What each step that says something puts on each wire, byte by byte."""

import asyncio
import json
from typing import cast

import pytest

from chaos.raw_client import connected, events
from holdfast.chaos import (
    Begin,
    CallTool,
    ChaosOptions,
    ChaosServer,
    CloseItem,
    Comment,
    CutCall,
    EndOfBody,
    ErrorEvent,
    Finish,
    Gate,
    Lifecycle,
    Malformed,
    OpenItem,
    Pause,
    Raw,
    Refuse,
    ReportedUsage,
    Say,
    SayWords,
    Script,
    SseStyle,
    Think,
    Wait,
)

WIRES = ["responses", "chat", "anthropic"]
TERMINAL = {"responses": "response.completed", "anthropic": "message_stop", "chat": "[DONE]"}


async def streamed(wire: str, *script: object, **body: object) -> list[tuple[str | None, object]]:
    async with ChaosServer(cast("Script", script)) as chaos, connected(chaos) as client:
        await client.post(wire, **body)
        return events(await client.answer())


async def whole(wire: str, *script: object) -> dict[str, object]:
    async with ChaosServer(cast("Script", script)) as chaos, connected(chaos) as client:
        await client.post(wire, stream=False)
        return json.loads(await client.answer())


def names(found: list[tuple[str | None, object]]) -> list[str]:
    """Event names; where the wire has none, the finish reason, the done line, or `delta`."""
    return [name or _chat_name(data) for name, data in found]


def _chat_name(data: object) -> str:
    if isinstance(data, str):
        return data
    body = cast("dict[str, list[dict[str, object]]]", data)
    if "error" in body:
        return "error"
    if not body["choices"]:
        return "usage"
    return str(body["choices"][0]["finish_reason"] or "delta")


def chat_deltas(found: list[tuple[str | None, object]]) -> list[dict[str, object]]:
    bodies = [cast("dict[str, list[dict[str, dict[str, object]]]]", data) for _, data in found[:-1]]
    return [body["choices"][0]["delta"] for body in bodies if body["choices"]]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_script_without_an_ending_ends_properly(wire: str) -> None:
    found = names(await streamed(wire, Say("hi")))
    assert found[-1] == TERMINAL[wire]
    assert found.count(TERMINAL[wire]) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_the_empty_script_is_an_empty_answer_with_its_marker(wire: str) -> None:
    assert names(await streamed(wire))[-1] == TERMINAL[wire]
    assert names(await streamed(wire, Finish()))[-1] == TERMINAL[wire]


async def test_responses_opens_and_closes_items_in_order() -> None:
    found = names(await streamed("responses", Think("a"), Say("b"), CallTool("t", {}, chunk_chars=0)))
    assert found == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_anthropic_opens_and_closes_blocks_in_order() -> None:
    found = names(await streamed("anthropic", Think("a", signature="s"), Say("b"), CallTool("t", {})))
    assert found == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"] * 2,
        "message_delta",
        "message_stop",
    ]


async def test_chat_sends_role_deltas_finish_and_done() -> None:
    found = await streamed("chat", Think("a"), Say("b"), CallTool("t", {"x": 1}, chunk_chars=4))
    assert names(found)[-2:] == ["tool_calls", "[DONE]"]
    deltas = chat_deltas(found)
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert deltas[1:3] == [{"reasoning_content": "a"}, {"content": "b"}]
    opened = {"index": 0, "id": "call_1_0", "type": "function", "function": {"name": "t", "arguments": ""}}
    assert deltas[3] == {"tool_calls": [opened]}
    pieces = [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"x"', ":1}")]
    assert deltas[4:6] == pieces


@pytest.mark.parametrize("wire", WIRES)
async def test_text_goes_on_in_the_same_item_across_a_gate(wire: str) -> None:
    gate = Gate()
    async with ChaosServer([Say("a"), Wait(gate), Say("b")]) as chaos, connected(chaos) as client:
        await client.post(wire)
        await gate.reached()
        assert gate.arrivals == 1
        assert chaos.seen.request(1).ended_s is None
        gate.open()
        found = names(events(await client.answer()))
    assert found.count("response.output_item.added" if wire == "responses" else "content_block_start") <= 1


async def test_text_comes_in_pieces_of_characters_or_words() -> None:
    found = chat_deltas(await streamed("chat", Say("abcde", chunk_chars=2), SayWords("one two three")))
    said = [delta["content"] for delta in found if delta.get("content")]
    assert said == ["ab", "cd", "e", "one ", "two ", "three"]


@pytest.mark.parametrize("wire", WIRES)
async def test_pacing_and_pauses_change_no_byte(wire: str) -> None:
    at_once = await streamed(wire, Say("ab", chunk_chars=1), CallTool("t", {"x": 1}))
    paced = await streamed(
        wire, Say("ab", chunk_chars=1, pace_s=0.001), Pause(0.001), CallTool("t", {"x": 1}, pace_s=0.001)
    )
    assert names(at_once) == names(paced)


@pytest.mark.parametrize("wire", WIRES)
async def test_lifecycle_events_say_nothing(wire: str) -> None:
    found = names(await streamed(wire, Begin(), Lifecycle(3), Say("x")))
    repeated = {"responses": "response.in_progress", "chat": "delta", "anthropic": "ping"}[wire]
    assert found[1:4] == [repeated] * 3


@pytest.mark.parametrize("kind", ["text", "thinking", "call", "refusal"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_item_can_be_opened_and_stay_silent(wire: str, kind: str) -> None:
    gate = Gate()
    script: Script = [OpenItem(kind), Wait(gate), CloseItem(), Say("x")]  # pyright: ignore[reportArgumentType]
    async with ChaosServer(script) as chaos, connected(chaos) as client:
        await client.post(wire)
        await gate.reached()
        gate.open()
        found = names(events(await client.answer()))
    opened = {"responses": "response.output_item.added", "anthropic": "content_block_start"}
    if wire in opened:
        assert found.count(opened[wire]) == 2
    assert found[-1] == TERMINAL[wire]


@pytest.mark.parametrize(
    ("wire", "reason", "shown"),
    [
        ("chat", "length", "length"),
        ("chat", "filtered", "content_filter"),
        ("anthropic", "length", "max_tokens"),
        ("anthropic", "filtered", "refusal"),
        ("responses", "length", "max_output_tokens"),
        ("responses", "filtered", "content_filter"),
    ],
)
async def test_finish_reasons_have_each_wires_name(wire: str, reason: str, shown: str) -> None:
    step = Finish(reason)  # pyright: ignore[reportArgumentType]
    found = await streamed(wire, Say("x"), step)
    assert json.dumps(shown) in json.dumps([data for _, data in found])
    if wire == "responses":
        assert names(found)[-1] == "response.incomplete"
        item_done = [cast("dict[str, dict[str, object]]", data) for _, data in found][-2]
        assert item_done["item"]["status"] == "incomplete"
    body = await whole(wire, Say("x"), step)
    assert json.dumps(shown) in json.dumps(body)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_is_content(wire: str) -> None:
    text = json.dumps([data for _, data in await streamed(wire, Refuse("never"))])
    assert "never" in text
    assert ("refusal" in text) or wire == "chat"
    assert "never" in json.dumps(await whole(wire, Refuse("never")))


@pytest.mark.parametrize("wire", WIRES)
async def test_the_terminal_event_can_be_repeated(wire: str) -> None:
    found = names(await streamed(wire, Say("x"), Finish(times=2)))
    assert found.count(TERMINAL[wire]) == 2


async def test_usage_is_what_the_script_or_the_options_say() -> None:
    found = await streamed(
        "chat", Say("x"), Finish(usage=ReportedUsage(3, 4)), stream_options={"include_usage": True}
    )
    assert names(found)[-3:] == ["stop", "usage", "[DONE]"]
    usage = cast("dict[str, dict[str, int]]", found[-2][1])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 4, 7)
    options = ChaosOptions(usage=ReportedUsage(1, 2))
    async with ChaosServer([Say("x")], options=options) as chaos, connected(chaos) as client:
        await client.post("anthropic", stream=False)
        body = json.loads(await client.answer())
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (1, 2)


async def test_the_usage_chunk_and_the_done_line_can_be_forced() -> None:
    assert names(await streamed("chat", Finish(usage_chunk="always")))[-2:] == ["usage", "[DONE]"]
    found = await streamed("chat", Finish(usage_chunk="never"), stream_options={"include_usage": True})
    assert "usage" not in names(found)
    assert names(await streamed("chat", Say("x"), Finish(done="missing")))[-1] == "stop"
    assert names(await streamed("anthropic", Say("x"), Finish(done="missing")))[-1] == "message_delta"


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_event_has_the_wires_shape(wire: str) -> None:
    found = await streamed(wire, Say("x"), ErrorEvent("it broke"))
    assert "it broke" in json.dumps(found)
    last = names(found)[-1]
    assert last == {"responses": "response.failed", "chat": "error", "anthropic": "error"}[wire]
    async with ChaosServer([ErrorEvent("it broke")]) as chaos, connected(chaos) as client:
        await client.post(wire, stream=False)
        assert await client.read_head() == 500
        assert b"it broke" in await client.read_body()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_call_can_be_cut(wire: str) -> None:
    found = await streamed(wire, CutCall("search", {"query": "all of it"}, keep_chars=6), EndOfBody())
    text = json.dumps(found)
    assert "all of it" not in text
    assert TERMINAL[wire] not in names(found)
    assert not any("done" in name or "stop" in name for name in names(found))


async def test_a_cut_call_with_finish_length_is_a_truncated_call() -> None:
    body = await whole("anthropic", CutCall("search", {"query": "x"}), Finish("length"))
    assert body["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_malformed_frame_a_comment_and_raw_text_stand_as_written(wire: str) -> None:
    async with (
        ChaosServer([Malformed(), Comment("hush"), Raw("data: raw\n\n")]) as chaos,
        connected(chaos) as client,
    ):
        await client.post(wire)
        body = (await client.answer()).decode()
    assert 'data: {"this is": not JSON\n\n: hush\n\ndata: raw\n\n' in body


async def test_a_malformed_answer_in_one_body() -> None:
    async with ChaosServer([Malformed("<html>")]) as chaos, connected(chaos) as client:
        await client.post("chat", stream=False)
        assert await client.answer() == b"<html>"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_line_ends_and_comments_are_a_matter_of_style(line_end: str) -> None:
    style = SseStyle(line_end=line_end, comment_before_each="note", space_after_colon="")  # pyright: ignore[reportArgumentType]
    options = ChaosOptions(sse=style)
    async with ChaosServer([Say("x")], options=options) as chaos, connected(chaos) as client:
        await client.post("anthropic")
        body = (await client.answer()).decode()
    assert body.startswith(f":note{line_end}event:message_start{line_end}data:{{")
    assert body.endswith(f"}}{line_end}{line_end}")
    assert ("\n" in body) == ("\n" in line_end)


async def test_a_closed_gate_lets_many_through_when_it_opens() -> None:
    gate = Gate()
    async with ChaosServer([Wait(gate), Say("x")], after_last="repeat") as chaos:

        async def one() -> bytes:
            async with connected(chaos) as client:
                await client.post()
                return await client.answer()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one()) for _ in range(5)]
            await gate.reached(5)
            gate.open()
        assert gate.is_open
        assert all(b"[DONE]" in task.result() for task in tasks)
