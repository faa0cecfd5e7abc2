"""The Anthropic Messages wire."""

import json

import pytest

from holdfast.model_events import (
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    TextPiece,
    TokensUsed,
)
from holdfast.models.anthropic import AnthropicParser
from holdfast.models.sse import MalformedFrame
from tables import for_each_row

from .reading import calls, closed, errors, finishes, read, recorded, stream, text_of, thinking_of, usage

STOP = {"type": "message_stop"}
TOOL: dict[str, object] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


def heard(*frames: object) -> list[ModelEvent]:
    return read(AnthropicParser(), stream(*frames))


def start(block: object, at: int = 0) -> dict[str, object]:
    return {"type": "content_block_start", "index": at, "content_block": block}


def delta(at: int = 0, **fields: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": at, "delta": fields}


def stop(at: int = 0) -> dict[str, object]:
    return {"type": "content_block_stop", "index": at}


def ending(reason: str | None, **fields: object) -> dict[str, object]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **fields},
        "usage": {"output_tokens": 3},
    }


TEXT = [start({"type": "text", "text": ""}), delta(type="text_delta", text="hi"), stop()]


def test_an_answer_with_thinking_text_a_server_tool_and_two_calls() -> None:
    events = read(AnthropicParser(), recorded("anthropic"))
    assert thinking_of(events) == "Let me think 🤔"
    assert closed(events) == [
        ItemClosed(0, "reasoning", "Let me think 🤔", opaque={"signature": "EqQBCgIYAhIM=="}),
        ItemClosed(1, "reasoning", "", opaque={"redacted": "EmwKAhgB"}),
        ItemClosed(2, "text", "Grüße"),
        ItemClosed(3, "tool", '{"path": "a.txt"}', "toolu_01", "read"),
        ItemClosed(4, "tool", "{}", "toolu_02", "list"),
    ]
    assert ItemOpened(3, "tool", "toolu_01", "read") in events
    assert Lifecycle("ping") in events
    assert usage(events) == [
        TokensUsed(input_tokens=115, output_tokens=1, cached_tokens=100, cache_write_tokens=5),
        TokensUsed(
            input_tokens=115, output_tokens=89, cached_tokens=100, cache_write_tokens=5, reasoning_tokens=40
        ),
    ]
    assert events[-1] == Finished("tools")


def test_a_message_without_its_stop_is_not_complete() -> None:
    parser = AnthropicParser()
    events = read(parser, stream(*TEXT, ending("end_turn")))
    assert not finishes(events)
    assert not parser.finished


def test_a_repeated_stop_changes_nothing() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "late"}}
    assert heard(*TEXT, ending("end_turn"), STOP, STOP, error)[-1] == Finished("stop")
    assert finishes(heard(*TEXT, ending("end_turn"), STOP, STOP)) == [Finished("stop")]


@for_each_row(
    ("reason", "finished"),
    [
        ("end_turn", Finished("stop")),
        ("stop_sequence", Finished("stop", "stop_sequence")),
        ("max_tokens", Finished("length")),
        ("model_context_window_exceeded", Finished("length", "model_context_window_exceeded")),
        ("pause_turn", Finished("length", "pause_turn")),
        ("refusal", Finished("refused")),
        ("tool_use", Finished("stop", "tool_use")),
        ("something_new", Finished("stop", "something_new")),
        (None, Finished("stop")),
    ],
)
def test_the_reasons_to_stop(reason: str | None, finished: Finished) -> None:
    assert heard(*TEXT, ending(reason), STOP)[-1] == finished


def test_a_stop_sequence_is_named() -> None:
    ended = ending("stop_sequence", stop_sequence="END")
    assert heard(ended, STOP)[-1] == Finished("stop", "stop_sequence", "END")


def test_a_refusal_says_why() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "No exploits."}
    assert heard(ending("refusal", stop_details=why), STOP)[-1] == Finished("refused", "No exploits.")


@for_each_row("pieces", [[], [delta(type="input_json_delta", partial_json='{"a"')]])
def test_a_call_that_the_token_limit_cut_is_never_closed(pieces: list[object]) -> None:
    events = heard(start(TOOL), *pieces, stop(), ending("max_tokens"), STOP)
    assert calls(events) == []
    assert events[-1] == Finished("length")


def test_a_call_before_the_one_that_was_cut_is_closed() -> None:
    events = heard(start(TOOL), stop(), start(TOOL | {"id": "u"}, 1), stop(1), ending("max_tokens"), STOP)
    assert calls(events) == [("t", "f", "{}")]


def test_a_call_that_was_not_stopped_is_malformed_in_a_complete_answer() -> None:
    with pytest.raises(MalformedFrame):
        heard(start(TOOL), ending("tool_use"), STOP)


def test_text_that_was_not_stopped_is_closed_with_the_message() -> None:
    assert closed(heard(*TEXT[:2], ending("end_turn"), STOP)) == [ItemClosed(0, "text", "hi")]


def test_input_that_comes_whole_at_the_start_of_its_block() -> None:
    events = heard(start(TOOL | {"input": {"a": [1]}}), stop(), ending("tool_use"), STOP)
    assert calls(events) == [("t", "f", '{"a": [1]}')]


def test_text_that_comes_at_the_start_of_its_block() -> None:
    events = heard(start({"type": "text", "text": "h"}), delta(type="text_delta", text="i"), stop(), STOP)
    assert text_of(events) == "hi"
    assert closed(events) == [ItemClosed(0, "text", "hi")]


def test_blocks_that_share_an_index_one_after_the_other() -> None:
    events = heard(*TEXT, start(TOOL), stop(), ending("tool_use"), STOP)
    assert [item.index for item in closed(events)] == [0, 1]


def test_text_whose_start_was_left_out() -> None:
    assert heard(delta(type="text_delta", text="hi"))[:2] == [ItemOpened(0, "text"), TextPiece(0, "hi")]


@for_each_row(
    "frame",
    [
        {"type": "ping"},
        {"type": "something_new", "delta": 7, "index": "x"},
        delta(type="citations_delta", citation={"type": "char_location"}),
        delta(type="something_new_delta", value=1),
        delta(type="input_json_delta", partial_json=""),
        delta(type="text_delta", text=""),
        start({"type": "something_new", "text": 7} | {"text": "x"}),
        stop(9),
    ],
)
def test_what_says_nothing_is_lifecycle(frame: dict[str, object]) -> None:
    assert heard(frame) == [Lifecycle(str(frame["type"]))]


def test_a_signature_is_kept_and_is_no_progress() -> None:
    thinking = start({"type": "thinking", "thinking": "", "signature": ""})
    events = heard(thinking, delta(type="signature_delta", signature="sig"), stop(), STOP)
    assert events == [
        ItemOpened(0, "reasoning"),
        Lifecycle("content_block_delta"),
        ItemClosed(0, "reasoning", "", opaque={"signature": "sig"}),
        Finished("stop"),
    ]


@for_each_row(
    ("frame", "expected"),
    [
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            ("Overloaded", "overloaded_error"),
        ),
        ({"error": {"type": "api_error", "message": "bare"}}, ("bare", "api_error")),
    ],
)
def test_errors_inside_the_stream(frame: object, expected: tuple[str, str]) -> None:
    parser = AnthropicParser()
    events = read(parser, stream(*TEXT, frame, STOP))
    (error,) = errors(events)
    assert (error.message, error.kind) == expected
    assert events[-1] == error
    assert not parser.finished


@for_each_row(
    "frames",
    [
        [delta(type="input_json_delta", partial_json="{")],
        [start(TOOL), delta(type="text_delta", text="x")],
        [{"type": "content_block_delta", "index": "0"}],
        [start({"type": "text"}, at) for at in range(1001)],
    ],
)
def test_what_breaks_the_protocol_is_malformed(frames: list[object]) -> None:
    with pytest.raises(MalformedFrame):
        heard(*frames)


def test_a_whole_answer_instead_of_a_stream() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hi"},
            TOOL | {"input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 4, "output_tokens": 2},
    }
    parser = AnthropicParser()
    events = parser.answer(json.dumps(body).encode())
    assert closed(events) == [
        ItemClosed(0, "reasoning", "hm", opaque={"signature": "s"}),
        ItemClosed(1, "text", "hi"),
        ItemClosed(2, "tool", '{"a": 1}', "t", "f"),
    ]
    assert (text_of(events), thinking_of(events)) == ("hi", "hm")
    assert usage(events) == [TokensUsed(input_tokens=4, output_tokens=2)]
    assert events[-1] == Finished("tools")
    assert parser.finished


def test_a_whole_answer_that_is_an_error_unfinished_or_no_message() -> None:
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}'
    assert errors(AnthropicParser().answer(error))[0].kind == "overloaded_error"
    assert not finishes(AnthropicParser().answer(b'{"type":"message","content":[],"stop_reason":null}'))
    with pytest.raises(MalformedFrame):
        AnthropicParser().answer(b"<html>")
