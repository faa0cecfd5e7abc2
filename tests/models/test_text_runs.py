"""The short way for text gives what the long way gives, whatever is in the stream and however it is cut."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model_events import Lifecycle, ModelEvent, TextPiece
from holdfast.models.anthropic import AnthropicParser
from holdfast.models.chat_completions import ChatParser
from holdfast.models.responses import ResponsesParser
from holdfast.models.sse import FrameRun, MalformedFrame, SseFrame, SseParser
from holdfast.models.wire import StreamParser
from tables import for_each_row

from .reading import recorded

BOUNDED = settings(max_examples=150)
WIRES: dict[str, Callable[[], StreamParser]] = {
    "chat": ChatParser,
    "anthropic": AnthropicParser,
    "responses": ResponsesParser,
}
RECORDED = {"chat": "chat_openai", "anthropic": "anthropic", "responses": "responses_openai"}


def named(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def unnamed(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chat(text: str) -> bytes:
    return unnamed({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def anthropic(text: str) -> bytes:
    return named("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def responses(text: str) -> bytes:
    return named("response.output_text.delta", item_id="m", output_index=0, content_index=0, delta=text)


def chat_beside(delta: dict[str, object], **fields: object) -> bytes:
    return unnamed({"choices": [{"delta": delta, **fields}]})


TEXTS: dict[str, Callable[[str], bytes]] = {"chat": chat, "anthropic": anthropic, "responses": responses}
# What stands between pieces of text, or looks like one.
ODD: dict[str, list[bytes]] = {
    "chat": [
        chat_beside({"content": "a", "reasoning_content": "b"}),
        chat_beside({"content": "a", "refusal": "no"}),
        chat_beside({"content": "a", "refusal": None, "reasoning": "", "tool_calls": None}),
        chat_beside({"content": "a", "tool_calls": [{"index": 0, "function": {"name": "f"}}]}),
        chat_beside({"content": [{"type": "text", "text": "part"}]}),
        chat_beside({"content": "second"}, index=1),
        chat_beside({"content": "a"}, finish_reason="stop"),
        chat_beside({"content": "a"}, usage={"prompt_tokens": 1}),
        chat_beside({"content": 7}),
        unnamed({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}),
        unnamed({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 3}}),
        unnamed({"choices": [], "error": {"message": "broken"}}),
        b'event: error\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a","content":null}}]}\n\n',
        b'data: {"choices":[{"delta":\ndata: {"content":"two lines"}}]}\n\n',
        b'data: {"choices":[{"delta":\n{"content":"no data"}}]}\n\n',
        b'data: {"choices":[{"delta":\r{"content":"cr"}}]}\n\n',
        b"data: [DONE]\n\n",
    ],
    "anthropic": [
        named("content_block_delta", index=1, delta={"type": "text_delta", "text": "other"}),
        named("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
        named("content_block_delta", index=2, delta={"type": "thinking_delta", "thinking": "hm"}),
        named("content_block_delta", index=0, delta={"text": "a", "thinking": "b"}),
        named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        named("content_block_start", index=1, content_block={"type": "tool_use", "id": "t", "name": "f"}),
        named("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"}),
        named("content_block_stop", index=0),
        named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
        named("message_stop"),
        named("error", error={"type": "overloaded_error", "message": "x"}),
        b'data: {"type":"content_block_delta","index":0,"delta":{"text":"bare"}}\n\n',
        b'event: content_block_delta\ndata: {"index":0,"delta":{"text":"no type"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta",\n"delta":{"text":"a"}}\n\n',
    ],
    "responses": [
        named("response.output_text.delta", output_index=1, delta="other"),
        named("response.output_text.delta", item_id="m", delta="no place"),
        named("response.output_text.delta", output_index=0, item_id=5, delta="bad id"),
        named("response.refusal.delta", output_index=0, delta="no"),
        named("response.reasoning_text.delta", output_index=2, content_index=0, delta="hm"),
        named("response.function_call_arguments.delta", output_index=3, delta="{}"),
        named("response.output_item.added", output_index=0, item={"type": "message", "id": "m"}),
        named("response.output_item.done", output_index=0, item={"type": "message", "content": []}),
        named("response.completed", response={"status": "completed"}),
        named("response.failed", response={"status": "failed", "error": {"message": "x"}}),
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"bare"}\n\n',
        b'event: response.output_text.delta\ndata: {"output_index":0,"delta":"no type"}\n\n',
    ],
}
BETWEEN = [
    b": ping\n\n",
    b"\n",
    b"id: 7\n",
    b"data: {}\n\n",
    b"data: {}\n",
    b"data: \n\n",
    b"event: x\n\n",
    b"event: error\n",
    b"data: {\n\n",
]


def streams(wire: str) -> st.SearchStrategy[list[bytes]]:
    text = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["\n\ndata: ", '"}', "\\"])
    frame = text.map(TEXTS[wire])
    several = st.lists(frame, min_size=1, max_size=6).map(b"".join)
    other = st.sampled_from([*ODD[wire], *BETWEEN])
    return st.lists(frame | several | other, max_size=8)


def the_long_way(parser: StreamParser, data: bytes) -> Iterable[ModelEvent]:
    sse = SseParser()
    for at in range(len(data)):
        for frame in sse.feed(data[at : at + 1]):
            yield from parser.parse(frame)
    for frame in sse.end():
        yield from parser.parse(frame)
    yield from parser.end()


def the_short_way(parser: StreamParser, pieces: Iterable[bytes]) -> Iterable[ModelEvent]:
    """Tries the short way at every frame, also where a call would not."""
    sse = SseParser()
    for piece in pieces:
        for run in sse.runs(piece):
            while run.datas:
                text = parser.text_of(run)
                if text is not None:
                    yield text
                else:
                    yield from parser.parse(SseFrame(run.event, run.datas.pop(0)))
    for frame in sse.end():
        yield from parser.parse(frame)
    yield from parser.end()


def told(events: Iterable[ModelEvent]) -> list[Any]:
    """What was heard, texts joined and signs of life left out; its last word if it was not the protocol."""
    said: list[Any] = []
    try:
        for event in events:
            last = said[-1] if said else None
            if isinstance(event, TextPiece) and isinstance(last, TextPiece) and last.index == event.index:
                said[-1] = TextPiece(event.index, last.text + event.text)
            elif not isinstance(event, Lifecycle):
                said.append(event)
    except MalformedFrame:
        said.append("malformed")
    return said


@for_each_row("wire", WIRES)
def test_any_stream_in_any_cut_says_the_same_on_the_short_way(wire: str) -> None:
    @BOUNDED
    @given(streams(wire), st.lists(st.integers(0, 2000), max_size=8))
    def holds(parts: list[bytes], places: list[int]) -> None:
        data = b"".join(parts)
        edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
        pieces = [data[start:end] for start, end in pairwise(edges)]
        expected = told(the_long_way(WIRES[wire](), data))
        for cut in (pieces, parts, [data]):
            assert told(the_short_way(WIRES[wire](), cut)) == expected

    holds()


@for_each_row("wire", WIRES)
def test_whatever_stands_between_texts_says_the_same_on_the_short_way(wire: str) -> None:
    text = TEXTS[wire]
    for odd in [*ODD[wire], *BETWEEN]:
        parts = [text("a"), text("b"), odd, text("c"), text("d"), odd, text("e")]
        expected = told(the_long_way(WIRES[wire](), b"".join(parts)))
        for at in range(len(parts)):
            cut = [*parts[:at], b"".join(parts[at:])]
            assert told(the_short_way(WIRES[wire](), cut)) == expected, odd


@for_each_row("wire", WIRES)
def test_a_recorded_answer_says_the_same_on_the_short_way(wire: str) -> None:
    data = recorded(RECORDED[wire])
    expected = told(the_long_way(WIRES[wire](), data))
    assert told(the_short_way(WIRES[wire](), [data])) == expected
    frames = [frame + b"\n\n" for frame in data.split(b"\n\n")]
    assert told(the_short_way(WIRES[wire](), frames)) == expected


@for_each_row("wire", WIRES)
def test_more_of_a_text_goes_the_short_way_as_one_piece(wire: str) -> None:
    parser, sse = WIRES[wire](), SseParser()
    (begun,) = sse.feed(TEXTS[wire]("one"))
    parser.parse(begun)
    (run,) = sse.runs(b"".join(map(TEXTS[wire], [" two", "", " three"])))
    text = parser.text_of(run)
    assert text is not None
    assert (text.text, run.datas) == (" two three", [])
    (run,) = sse.runs(TEXTS[wire](" four"))
    assert parser.text_of(run) == TextPiece(text.index, " four")


@for_each_row("wire", WIRES)
def test_text_that_has_not_begun_goes_the_long_way(wire: str) -> None:
    (run,) = SseParser().runs(TEXTS[wire]("one"))
    before = FrameRun(run.event, list(run.datas))
    assert WIRES[wire]().text_of(run) is None
    assert run == before
