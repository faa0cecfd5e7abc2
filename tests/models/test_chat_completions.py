"""The Chat Completions wire, as each kind of server speaks it."""

from collections.abc import Sequence

import pytest

from holdfast.model_events import (
    ErrorReported,
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    TextPiece,
    TokensUsed,
)
from holdfast.models.chat_completions import ChatParser
from holdfast.models.sse import MalformedFrame, SseFrame
from holdfast.models.wire import COUNT_MAX
from tables import for_each_row

from .chat_frames import DONE, USAGE, called, delta, finish, heard
from .reading import (
    args_of,
    calls,
    closed,
    errors,
    finishes,
    read,
    read_open,
    recorded,
    stream,
    text_of,
    thinking_of,
    usage,
)


def test_an_answer_of_openai_with_text_two_calls_and_usage() -> None:
    events = read(ChatParser(), recorded("chat_openai"))
    assert text_of(events) == "Grüße, Welt 🌍"
    assert calls(events) == [("call_oOWW", "read", '{"path":"a.txt"}'), ("call_2bbb", "list", "{}")]
    assert usage(events) == [
        TokensUsed(input_tokens=120, output_tokens=30, cached_tokens=64, reasoning_tokens=8)
    ]
    assert events[0] == Lifecycle("chunk")
    assert events[1] == ItemOpened(0, "text")
    assert ItemOpened(1, "tool", "call_oOWW", "read") in events
    assert events[-1] == Finished("tools", "tool_calls")


@for_each_row(
    "frames",
    [
        [finish("stop"), DONE],
        [finish("stop")],
        [finish("stop"), {"choices": [], "usage": USAGE}, DONE],
        [finish("stop", usage=USAGE), DONE],
        [finish("stop"), {"choices": [], "usage": USAGE}],
        [finish("stop"), finish("stop"), DONE, DONE],
    ],
)
def test_a_finish_reason_and_the_end_of_the_stream_complete_an_answer(frames: Sequence[object]) -> None:
    parser = ChatParser()
    events = read(parser, stream(delta(content="hi"), *frames))
    assert finishes(events) == [Finished("stop")]
    assert closed(events) == [ItemClosed(0, "text", "hi")]
    assert parser.finished
    assert len(usage(events)) == (1 if b"prompt_tokens" in stream(*frames) else 0)


@for_each_row("ending", [[], [DONE], [{"choices": [], "usage": USAGE}, DONE]])
def test_text_without_a_finish_reason_is_not_complete(ending: Sequence[object]) -> None:
    parser = ChatParser()
    events = read(parser, stream(delta(content="hi"), *ending))
    assert not finishes(events)
    assert not closed(events)
    assert not parser.finished


def test_a_finish_reason_alone_finishes_nothing_while_the_stream_is_open() -> None:
    parser = ChatParser()
    events = read_open(parser, stream(delta(tool_calls=[called("f", "{}", index=0, id="c")]), finish("stop")))
    assert not finishes(events)
    assert not closed(events)


def test_nothing_comes_after_the_end() -> None:
    parser = ChatParser()
    read(parser, stream(finish("stop"), DONE))
    assert not read(parser, stream(delta(content="more"), finish("length"), DONE))


@for_each_row(
    ("word", "finished"),
    [
        ("length", Finished("length")),
        ("max_tokens", Finished("length", "max_tokens")),
        ("model_length", Finished("length", "model_length")),
        ("content_filter", Finished("refused", "content_filter")),
        ("content_filter: SAFETY", Finished("refused", "content_filter: SAFETY")),
        ("STOP", Finished("stop")),
        ("eos", Finished("stop", "eos")),
        ("sensitive", Finished("refused", "sensitive")),
        ("RECITATION", Finished("refused", "RECITATION")),
        ("model_context_window_exceeded", Finished("length", "model_context_window_exceeded")),
        ("tool_calls", Finished("stop", "tool_calls")),
    ],
)
def test_the_words_for_a_finish(word: str, finished: Finished) -> None:
    assert heard(delta(content="x"), finish(word), DONE)[-1] == finished


@for_each_row("word", ["error", "insufficient_system_resource", "abort", "network_error"])
def test_a_finish_that_is_a_failure_is_reported_as_an_error(word: str) -> None:
    events = heard(delta(content="x"), finish(word), DONE)
    assert [error.code for error in errors(events)] == [word]
    assert not finishes(events)


@for_each_row("field", ["reasoning_content", "reasoning"])
def test_thinking_in_either_field_remembers_its_field(field: str) -> None:
    events = heard(
        delta(role="assistant", content=None, **{field: "hm"}),
        delta(**{field: "m", "content": ""}),
        delta(content="yes"),
        finish("stop"),
    )
    assert thinking_of(events) == "hmm"
    assert closed(events) == [
        ItemClosed(0, "reasoning", "hmm", opaque={"field": field}),
        ItemClosed(1, "text", "yes"),
    ]


def test_thinking_in_both_fields_is_heard_once() -> None:
    assert thinking_of(heard(delta(reasoning="a", reasoning_content="a"), finish("stop"))) == "a"


def test_the_reasoning_details_of_openrouter_are_kept_to_go_back() -> None:
    def detail(**fields: object) -> dict[str, object]:
        return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}

    events = heard(
        delta(reasoning="a", reasoning_details=[detail(text="a")]),
        delta(reasoning="b", reasoning_details=[detail(text="b")]),
        delta(reasoning_details=[detail(signature="sig")]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "zz", "index": 1}]),
        delta(content="c"),
        finish("stop"),
    )
    assert thinking_of(events) == "ab"
    assert closed(events)[0].opaque["reasoning_details"] == (
        '[{"type":"reasoning.text","format":"anthropic-claude-v1","index":0,"text":"ab","signature":"sig"},'
        '{"type":"reasoning.encrypted","index":1,"data":"zz"}]'
    )


def test_reasoning_details_alone_are_heard_too() -> None:
    summary = {"type": "reasoning.summary", "summary": "hm"}
    hidden = {"type": "reasoning.encrypted", "data": "zz"}
    assert thinking_of(heard(delta(reasoning_details=[summary]), finish("stop"))) == "hm"
    (item,) = closed(heard(delta(reasoning_details=[hidden]), finish("stop")))
    assert item.opaque == {"reasoning_details": '[{"type":"reasoning.encrypted","data":"zz"}]'}


def test_content_in_parts_as_mistral_sends_it() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    events = heard(
        delta(content=[thinking]),
        delta(content=[{"type": "text", "text": "yes"}, {"type": "reference", "reference_ids": [1]}]),
        delta(content="!"),
        finish("stop"),
    )
    assert (thinking_of(events), text_of(events)) == ("hm", "yes!")


def test_a_refusal_is_heard_and_is_the_outcome() -> None:
    events = heard(delta(refusal="I can"), delta(refusal="not."), finish("stop"))
    assert text_of(events) == "I cannot."
    assert events[-1] == Finished("refused")


SILENT: list[object] = [
    delta(role="assistant"),
    delta(role="assistant", content=""),
    delta(content=None),
    delta(),
    {"choices": [{"index": 0, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": None, "finish_reason": ""}]},
    {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
    {"choices": None},
    {"id": "x", "object": "chat.completion.chunk"},
    {"choices": [{"index": 1, "delta": {"content": "another"}}]},
]


@for_each_row("frame", SILENT)
def test_what_says_nothing_is_no_progress(frame: object) -> None:
    assert heard(frame) == [Lifecycle("chunk")]


def test_an_empty_frame_is_nothing() -> None:
    assert heard(b"") == []


@for_each_row(
    ("frame", "error"),
    [
        (
            {"error": {"message": "boom", "type": "server_error", "code": "x"}},
            ErrorReported(message="boom", code="x", kind="server_error"),
        ),
        ({"error": "boom"}, ErrorReported(message="boom")),
        ({"error": {"message": ["boom"]}}, ErrorReported(message='{"error": {"message": ["boom"]}}')),
        (
            {"object": "error", "message": "boom", "type": "BadRequestError", "code": 400},
            ErrorReported(message="boom", code="400", kind="BadRequestError", status=400),
        ),
        (
            {
                "error": {"code": 502, "message": "Provider disconnected"},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
            ErrorReported(message="Provider disconnected", code="502", status=502),
        ),
    ],
)
def test_an_error_inside_the_stream(frame: object, error: ErrorReported) -> None:
    parser = ChatParser()
    events = read(parser, stream(delta(content="a"), frame, finish("stop"), DONE))
    (found,) = errors(events)
    assert (found.message, found.code, found.kind, found.status) == (
        error.message,
        error.code,
        error.kind,
        error.status,
    )
    assert events[-1] == found
    assert not parser.finished


def test_the_error_field_of_llama_cpp() -> None:
    wire = (
        b'error: {"code":400,"message":"the request exceeds the available context size"}\n\ndata: [DONE]\n\n'
    )
    (error,) = read(ChatParser(), wire)
    assert isinstance(error, ErrorReported)
    assert error.status == 400


def test_counts_that_come_with_every_chunk_are_reported_once() -> None:
    counted = [delta(content=word) | {"usage": USAGE} for word in "abc"]
    assert len(usage(heard(*counted, finish("stop"), {"choices": [], "usage": USAGE}, DONE))) == 1


@for_each_row(
    ("beside", "used"),
    [
        (
            {"usage": {"prompt_tokens": 3.0, "completion_tokens": None}},
            TokensUsed(input_tokens=3),
        ),
        (
            {"usage": USAGE | {"prompt_cache_hit_tokens": 2}},
            TokensUsed(input_tokens=3, output_tokens=2, cached_tokens=2),
        ),
        (
            {"usage": {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 20}}},
            TokensUsed(input_tokens=30, cached_tokens=20),
        ),
        (
            {"usage": {"prompt_tokens": -3, "completion_tokens": COUNT_MAX}},
            TokensUsed(output_tokens=COUNT_MAX),
        ),
        ({"usage": {"prompt_tokens": 1e30, "completion_tokens": 10**12}}, TokensUsed()),
        ({"usage": {"prompt_tokens": "9" * 30, "total_tokens": 1e300}}, TokensUsed()),
        (
            {"usage": {"prompt_tokens": "12", "completion_tokens": 1.5}},
            TokensUsed(input_tokens=12, output_tokens=1),
        ),
        ({"usage": {"prompt_tokens": "many", "completion_tokens": True}}, TokensUsed()),
        ({"usage": {"prompt_tokens": -1000, "completion_tokens": -5}}, TokensUsed()),
        ({"x_groq": {"id": "r", "usage": USAGE}}, TokensUsed(input_tokens=3, output_tokens=2)),
        (
            {"usage": USAGE | {"total_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}},
            TokensUsed(input_tokens=3, output_tokens=6, reasoning_tokens=4),
        ),
    ],
)
def test_the_counts_of_several_servers(beside: dict[str, object], used: TokensUsed) -> None:
    assert usage(heard(finish("stop", **beside), DONE)) == [used]


def test_a_whole_answer_instead_of_a_stream() -> None:
    body = stream(
        {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "hi",
                        "reasoning_content": "hm",
                        "tool_calls": [called("f", '{"a":1}', id="c")],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": USAGE,
        }
    ).removeprefix(b"data: ")
    parser = ChatParser()
    events = parser.answer(body)
    assert (text_of(events), thinking_of(events), args_of(events)) == ("hi", "hm", '{"a":1}')
    assert events[-1] == Finished("tools", "tool_calls")
    assert usage(events) == [TokensUsed(input_tokens=3, output_tokens=2)]
    assert parser.finished


def test_a_whole_answer_that_is_an_error_or_nothing_we_know() -> None:
    assert [error.message for error in errors(ChatParser().answer(b'{"error":{"message":"no"}}'))] == ["no"]
    for body in (b"{}", b"<html>", b""):
        with pytest.raises(MalformedFrame):
            ChatParser().answer(body)


@for_each_row(
    "data",
    [
        b"{",
        b"null",
        b"[]",
        b"hello",
        b'{"choices":[{"delta":{"content":5}}]}',
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":"\xff"}}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"\\ud800"}}]}}]}',
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_is_not_the_protocol_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        ChatParser().parse(SseFrame(b"", data))


def test_pieces_add_up_to_what_is_closed() -> None:
    events = read(ChatParser(), recorded("chat_openai"))
    said = [event for event in events if isinstance(event, TextPiece)]
    assert "".join(piece.text for piece in said) == closed(events)[0].text
