"""No secret of this server is in what the relay passes on, however it is escaped or cut into deltas."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from features.relay.relaying import KEY, PATHS, WIRES, body_for, relaying, target_on, text_by_package
from holdfast.chaos import ChaosServer, Drop, Raw, Say, Status
from holdfast.features.relay.redacting import HELD_BYTES_MAX, PLACES_MAX, FrameFilter
from holdfast.redaction import MARK, Redactor
from holdfast.targets import Wire
from serving import Served, Setting
from side_by_side import on_each_wire
from tables import for_each_row

BEFORE, AFTER = "the key is ", ", said skeptical sk- people"


def in_chat(text: str) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


def in_responses(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text}


def in_anthropic(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def text_in(frame: dict[str, Any]) -> str:
    if "choices" in frame:
        return frame["choices"][0]["delta"]["content"]
    return frame["delta"] if isinstance(frame["delta"], str) else frame["delta"]["text"]


def passed(frames: list[bytes], *, bytes_each: int = 10_000, secret: str = KEY) -> list[bytes]:
    """What a client gets at each step, if these frames come in pieces of some bytes."""
    redacting, shown = FrameFilter(Redactor([secret])), list[bytes]()
    for frame in frames:
        shown += [redacting.feed(frame[at : at + bytes_each]) for at in range(0, len(frame), bytes_each)]
    return [*shown, redacting.flush()]


def framed(values: Iterable[Any]) -> list[bytes]:
    return [f"data: {json.dumps(value)}\n\n".encode() for value in values]


@given(
    st.sets(st.integers(1, len(BEFORE + KEY + AFTER) - 1)),
    st.sampled_from([in_chat, in_responses, in_anthropic]),
    st.sampled_from([1, 7, 60, 10_000]),
)
def test_a_key_that_is_split_over_deltas_is_caught(
    cuts: set[int], delta: Callable[[str], dict[str, Any]], bytes_each: int
) -> None:
    """P11: wherever it is split, and however the bytes come."""
    whole = BEFORE + KEY + AFTER
    at = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(at)]
    frames = b"".join(passed(framed(map(delta, pieces)), bytes_each=bytes_each)).decode().split("\n\n")
    shown = "".join(text_in(json.loads(frame[6:])) for frame in frames[:-1])
    assert KEY[4:] not in shown
    assert shown.startswith(BEFORE)
    assert shown.endswith(MARK + AFTER)
    assert len(shown) <= len(BEFORE + MARK + AFTER) + 3  # three characters of a key tell nothing


def choice(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": None}


def in_second_choice(text: str) -> dict[str, Any]:
    return {"id": "c", "choices": [choice(1, text)]}


def in_both_choices(text: str) -> dict[str, Any]:
    return {"id": "c", "choices": [choice(0, "other"), choice(1, text)]}


def as_reasoning(text: str) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"reasoning": text}}]}


def as_summary(text: str) -> dict[str, Any]:
    about = {"item_id": "r", "output_index": 0, "summary_index": 0}
    return {"type": "response.reasoning_summary_text.delta", **about, "delta": text}


def as_unknown_event(text: str) -> dict[str, Any]:
    return {"type": "response.code_interpreter_call_code.delta", "item_id": "i", "delta": text}


def as_thinking(text: str) -> dict[str, Any]:
    delta = {"type": "thinking_delta", "thinking": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def as_completion(text: str) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": "y"}, "text": text}]}


@for_each_row(
    "delta",
    [
        in_second_choice,
        in_both_choices,
        as_reasoning,
        as_summary,
        as_unknown_event,
        as_thinking,
        as_completion,
    ],
)
@for_each_row("chars", [1, 5])
def test_a_key_is_caught_in_every_choice_and_kind_of_text(
    delta: Callable[[str], dict[str, Any]], chars: int
) -> None:
    """P11: also where no parser reads, because the relay passes everything on."""
    whole = BEFORE + KEY + AFTER
    pieces = passed(framed(delta(whole[at : at + chars]) for at in range(0, len(whole), chars)))
    assert not any(KEY[:4].encode() in piece for piece in pieces)
    shown = b"".join(pieces).decode()
    texts = [text for frame in shown.split("\n\n")[:-1] for text in strings(json.loads(frame[6:]))]
    assert KEY[4:] not in "".join(text for text in texts if text not in {"c", "i", "r", "y", "other"})
    assert MARK in shown


WITH_ESCAPES = 'pass/wo<rd"é'
FIRST, SECOND = KEY[:9], KEY[9:]
NAMED: dict[str, Any] = {"id": "c1", "type": "function"}


def chunk(*deltas: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta} for delta in deltas]}


def tools(*calls: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(calls)})


def args(text: str, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"arguments": text}}


def in_tool(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", **fields, "delta": text}


@for_each_row(
    "values",
    [
        [
            tools({"index": 0, **NAMED, "function": {"name": "f", "arguments": FIRST}}),
            tools(args(SECOND, index=0)),
        ],
        [tools(args(FIRST, index=0, **NAMED)), tools(args(SECOND, index=0))],
        [
            tools(args(FIRST, index=0), args(FIRST, index=1)),
            tools(args(SECOND, index=1), args(SECOND, index=0)),
        ],
        [tools(args(FIRST), args(FIRST)), tools(args(SECOND), args(SECOND))],
        [tools(args(FIRST, **NAMED)), tools(args(SECOND))],
        [tools(args(text, id=call)) for text in (FIRST, SECOND) for call in "ab"],
        [
            tools(args(FIRST, index=0, note="x", **NAMED)),
            tools(args(FIRST, index=1, note="x", **NAMED)),
            tools(args(SECOND, index=0, note="x")),
            tools(args(SECOND, index=1, note="x")),
        ],
        [tools(args(FIRST, index=0)), tools(args(SECOND, index="0"))],
        [tools(args(FIRST, index=0)), tools(args(SECOND))],
        [tools({"index": 0, "function": {"name": FIRST}}), tools({"index": 0, "function": {"name": SECOND}})],
        [
            chunk({"function_call": {"name": "f", "arguments": FIRST}}),
            chunk({"function_call": {"arguments": SECOND}}),
        ],
        [chunk({"content": FIRST}, {"content": SECOND})],
        [chunk({"content": FIRST, "reasoning": FIRST}), chunk({"content": SECOND, "reasoning": SECOND})],
        [chunk({"content": [{"type": "text", "text": FIRST}, {"type": "text", "text": SECOND}]})],
        [chunk({"content": FIRST}), {"id": "c", "choices": [{"index": 0, "message": {"content": SECOND}}]}],
        [
            {
                "type": "response.output_item.added",
                "output_index": 1,
                "item": {"arguments": FIRST, "name": "f"},
            },
            in_tool(SECOND, output_index=1, item_id="i"),
        ],
        [
            *({"output_index": nth, "item": {"arguments": FIRST, "name": "f"}} for nth in (1, 2)),
            *(in_tool(SECOND, output_index=nth) for nth in (1, 2)),
        ],
        [in_tool(text, item_id=item) for text in (FIRST, SECOND) for item in "ab"],
        [
            {"type": "content_block_start", "index": 0, "content_block": {"text": FIRST, "note": "x"}},
            in_anthropic(SECOND),
        ],
        [chunk({"content": FIRST}), {"id": "c", "choices": [{"text": SECOND}]}],
        [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": FIRST}},
            in_anthropic(SECOND),
        ],
        [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "t", "input": FIRST}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "d", "partial_json": SECOND}},
        ],
    ],
)
@for_each_row("line_end", ["\n", "\r\n", "\r"])
def test_a_key_is_caught_however_its_pieces_are_labelled(values: list[Any], line_end: str) -> None:
    """P11: deltas of one item can differ in their fields, and packages in how they join them."""
    pieces = passed([frame.replace(b"\n", line_end.encode()) for frame in framed(values)])
    shown = b"".join(pieces).decode()
    assert MARK in shown
    assert SECOND not in shown


@for_each_row("cut", range(11, 18))
@for_each_row("written", ['pass/wo<rd"é', 'pass\\/wo<rd\\"é', 'pass/wo\\u003crd\\"\\u00e9'])
def test_a_key_is_caught_in_json_in_a_text(written: str, cut: int) -> None:
    """P11: a tool's arguments are JSON, and the client decodes them after it has joined them."""
    whole = f'{{"a": "{written}"}}'
    values = [tools(args(text, index=0)) for text in (whole[:cut], whole[cut:])]
    shown = b"".join(passed(framed(values), secret=WITH_ESCAPES)).decode().split("\n\n")[:-1]
    calls = [json.loads(frame[6:])["choices"][0]["delta"]["tool_calls"][0] for frame in shown]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a": "[redacted]"}'


def test_half_a_character_hides_no_key() -> None:
    """P11: no strict parser reads such a frame, but many clients do."""
    frames = [frame.replace(b"@", b"\\ud83d") for frame in framed([in_chat("@" + FIRST), in_chat(SECOND)])]
    shown = b"".join(passed(frames))
    assert SECOND.encode() not in shown
    assert b"\\ud83d[redacted]" in shown


def strings(value: Any) -> list[str]:
    """The texts of a JSON value, without what names their kind."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return [text for key, part in table.items() if key != "type" for text in strings(part)]
    if isinstance(value, list):
        return [text for part in cast("list[Any]", value) for text in strings(part)]
    return [value] if isinstance(value, str) else []


@for_each_row(
    "values",
    [
        [{f"name{nth}": FIRST, "id": "!"} for nth in range(PLACES_MAX)],
        [{"a": FIRST}, *({"b": "x" * 1000} for _ in range(HELD_BYTES_MAX // 1000))],
    ],
)
def test_a_beginning_is_redacted_when_too_much_is_held_back(values: list[Any]) -> None:
    """P10: a provider can't fill the memory with names, or with text that waits for another."""
    shown = passed(framed(values))
    assert shown[0] == b""
    assert any(shown[:-1])
    assert FIRST.encode() not in b"".join(shown[:-1])


def test_a_key_is_caught_around_a_large_frame() -> None:
    """P11: the first characters that were shown aren't forgotten."""
    values = [in_chat(KEY[:3]), {"usage": "x" * HELD_BYTES_MAX}, in_chat(KEY[3:])]
    assert KEY[3:].encode() not in b"".join(passed(framed(values)))


def test_other_text_passes_at_once_and_unchanged() -> None:
    frames = framed(map(in_chat, ["skeptics ", "say sk", "-no", 'a "quote"']))
    assert passed(frames) == [*frames, b""]
    held = framed(map(in_chat, ["it is sk-up", "town"]))
    assert passed(held) == [b"", b"".join(held), b""]


def knowing_the_key() -> Setting:
    return Setting(secrets=Redactor([KEY]))


@for_each_row("target", WIRES)
@on_each_wire
async def test_a_streamed_key_never_reaches_the_client(wire: Wire, target: Wire) -> None:
    """P11: on every pair of wires."""
    script = [Say(f"provider says: {KEY} is wrong", chunk_chars=9)]
    async with (
        ChaosServer(script) as chaos,
        relaying(target_on(chaos, target), setting=knowing_the_key()) as server,
    ):
        text = await text_by_package(server, wire, stream=True)
    assert KEY[4:] not in text
    assert text.endswith(f"{MARK} is wrong")


async def test_a_broken_frame_is_dropped_before_the_error_event() -> None:
    """P12: its package could only report that the frame is no JSON."""
    script = [Say("hel"), Raw('data: {"id": "c", "choi'), Drop()]
    async with (
        ChaosServer(script, after_last="repeat") as chaos,
        relaying(target_on(chaos, "chat"), setting=knowing_the_key()) as server,
    ):
        answer = await server.call("POST", PATHS["chat"], body=body_for("chat", stream=True))
    frames = [
        json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")
    ]
    assert frames[-1]["error"]["code"] == "dropped"


@on_each_wire
async def test_an_error_that_escapes_the_key_is_cleaned(wire: Wire) -> None:
    """P11: an error passes as its provider wrote it, but without our key."""
    escaped = "".join(f"\\u{ord(char):04x}" for char in KEY)
    body = f'{{"error": {{"message": "bad key {escaped}", "type": "t"}}}}'
    async with (
        ChaosServer([Status(401, body=body)]) as chaos,
        relaying(target_on(chaos, wire), setting=knowing_the_key()) as server,
    ):
        answer = await _asked(server, wire)
    assert answer["error"]["message"] == f"bad key {MARK}"


async def _asked(server: Served, wire: Wire) -> dict[str, Any]:
    answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True))
    assert answer.status == 401
    return json.loads(answer.body)
