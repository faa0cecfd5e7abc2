"""The Responses wire, and the dialect of the Codex backend."""

import json

import pytest

from holdfast.model_events import (
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.responses import ResponsesParser
from holdfast.models.sse import MalformedFrame
from tables import for_each_row

from .reading import calls, closed, errors, finishes, read, recorded, stream, text_of, thinking_of, usage

COMPLETED: dict[str, object] = {
    "type": "response.completed",
    "response": {"status": "completed", "output": []},
}
MESSAGE: dict[str, object] = {
    "type": "message",
    "id": "m",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hi"}],
}
CALL: dict[str, object] = {
    "type": "function_call",
    "id": "fc",
    "call_id": "c",
    "name": "f",
    "arguments": '{"a":1}',
}


def heard(*frames: object) -> list[ModelEvent]:
    return read(ResponsesParser(), stream(*frames))


def added(item: object, at: int = 0) -> dict[str, object]:
    return {"type": "response.output_item.added", "output_index": at, "item": item}


def done(item: object, at: int = 0) -> dict[str, object]:
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def text(delta: str, at: int = 0) -> dict[str, object]:
    return {"type": "response.output_text.delta", "output_index": at, "item_id": "m", "delta": delta}


def args(delta: str, at: int = 0) -> dict[str, object]:
    return {"type": "response.function_call_arguments.delta", "output_index": at, "delta": delta}


def ended(kind: str, **response: object) -> dict[str, object]:
    return {"type": f"response.{kind}", "response": response}


def test_an_answer_of_openai_with_reasoning_text_and_a_call() -> None:
    events = read(ResponsesParser(), recorded("responses_openai"))
    assert closed(events) == [
        ItemClosed(
            0, "reasoning", "**Plan** first\n\n**Act** 🌍", opaque={"encrypted_content": "gAAA-whole"}
        ),
        ItemClosed(1, "text", "Grüße, Welt"),
        ItemClosed(2, "tool", '{"path":"a"}', "call_1", "read"),
    ]
    assert thinking_of(events) == "**Plan** first\n\n**Act** 🌍"
    assert text_of(events) == "Grüße, Welt"
    assert events[0] == Lifecycle("response.created")
    assert ItemOpened(2, "tool", "call_1", "read") in events
    assert usage(events) == [
        TokensUsed(input_tokens=200, output_tokens=60, cached_tokens=128, reasoning_tokens=32)
    ]
    assert events[-1] == Finished("tools")


def test_an_answer_of_codex_without_openings_and_with_an_empty_final_output() -> None:
    events = read(ResponsesParser(), recorded("responses_codex"))
    assert text_of(events) == "Hi there"
    assert closed(events) == [
        ItemClosed(1, "reasoning", "", opaque={"encrypted_content": "gAAA"}),
        ItemClosed(0, "text", "Hi there"),
        ItemClosed(2, "tool", "{}", "call_2", "list"),
    ]
    assert events[0] == Lifecycle("codex.rate_limits")
    assert events[-1] == Finished("tools")


def test_a_stream_without_its_terminal_event_is_not_complete() -> None:
    parser = ResponsesParser()
    events = read(parser, stream(added(MESSAGE), text("hi"), done(MESSAGE), b"[DONE]"))
    assert not finishes(events)
    assert not parser.finished


def test_a_repeated_terminal_event_changes_nothing() -> None:
    late = ended("failed", error={"message": "late"})
    assert finishes(heard(done(MESSAGE), COMPLETED, COMPLETED, late)) == [Finished("stop")]
    assert heard(done(MESSAGE), COMPLETED, late)[-1] == Finished("stop")


@for_each_row(
    "final",
    [
        COMPLETED,
        {"type": "response.done", "response": {"status": "completed"}},
        {"type": "response.done", "response": {}},
        {"type": "response.completed"},
    ],
)
def test_the_forms_of_completion(final: object) -> None:
    assert heard(text("hi"), final)[-2:] == [ItemClosed(0, "text", "hi"), Finished("stop")]


@for_each_row(
    ("final", "finished"),
    [
        (
            ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Finished("length", "max_output_tokens"),
        ),
        (
            ended("incomplete", incomplete_details={"reason": "content_filter"}),
            Finished("refused", "content_filter"),
        ),
        (ended("incomplete", incomplete_details={"reason": "steered"}), Finished("length", "steered")),
        (ended("incomplete", status="incomplete"), Finished("length")),
        (
            ended("done", status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Finished("length", "max_output_tokens"),
        ),
        # Gateways end every stream as completed; the response itself says better.
        (ended("completed", status="incomplete"), Finished("length")),
    ],
)
def test_an_answer_that_is_incomplete(final: object, finished: Finished) -> None:
    events = heard(text("hi"), final)
    assert events[-1] == finished
    assert ItemClosed(0, "text", "hi") in events


@for_each_row("final_item", [[done(CALL | {"status": "incomplete", "arguments": '{"a"'})], []])
def test_a_call_that_was_cut_short_is_never_closed(final_item: list[object]) -> None:
    cut = ended("incomplete", status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    events = heard(added(CALL | {"arguments": ""}), args('{"a"'), *final_item, cut)
    assert calls(events) == []
    assert events[-1] == Finished("length", "max_output_tokens")


def test_a_call_that_the_protocol_left_open_is_malformed_in_a_complete_answer() -> None:
    with pytest.raises(MalformedFrame):
        heard(added(CALL), args('{"a":1}'), COMPLETED)


def test_a_call_whose_arguments_were_done_is_closed_by_the_final_response() -> None:
    arguments = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"a":1}'}
    events = heard(added(CALL | {"arguments": ""}), args('{"a":'), arguments, COMPLETED)
    assert calls(events) == [("c", "f", '{"a":1}')]


def test_the_final_response_makes_up_for_what_the_stream_left_out() -> None:
    final = ended("completed", status="completed", output=[MESSAGE, CALL | {"status": "completed"}])
    events = heard(final)
    assert text_of(events) == "hi"
    assert calls(events) == [("c", "f", '{"a":1}')]
    assert events[-1] == Finished("tools")
    assert closed(heard(text("h"), final)) == closed(events)


def test_the_final_response_repeats_nothing_even_under_other_ids() -> None:
    final = ended("completed", status="completed", output=[MESSAGE | {"id": "other"}, CALL | {"id": "other"}])
    events = heard(done(MESSAGE), done(CALL, 1), final)
    assert len(closed(events)) == 2
    events = heard(done(MESSAGE, 3), done(CALL, 1), final)
    assert len(calls(events)) == 1


def thought(delta: str) -> dict[str, object]:
    return {
        "type": "response.reasoning_summary_text.delta",
        "output_index": 0,
        "item_id": "rs",
        "delta": delta,
    }


SUMMARY = {"type": "summary_text", "text": "hm"}
REASONING: dict[str, object] = {"type": "reasoning", "id": "rs", "summary": [SUMMARY]}


@for_each_row("said", [MESSAGE, MESSAGE | {"id": "other"}], ids=["same id", "other id"])
@for_each_row(
    "frames",
    [
        [added(REASONING), thought("hm"), done(REASONING), text("h"), text("i"), done(MESSAGE)],
        [added(REASONING), thought("hm"), text("h"), text("i")],
        [added(MESSAGE), thought("hm"), text("h"), text("i"), done(MESSAGE)],
        [added(MESSAGE), text("hi"), done(MESSAGE)],
        [text("h"), thought("hm"), text("i"), done(MESSAGE)],
        [text("hi"), thought("hm"), done(MESSAGE)],
        [done(MESSAGE)],
    ],
)
def test_thinking_and_text_may_share_an_index_and_nothing_is_said_twice(
    frames: list[object], said: dict[str, object]
) -> None:
    events = heard(*frames, ended("completed", status="completed", output=[REASONING, said]))
    assert text_of(events) == "hi"
    assert "".join(item.text for item in closed(events) if item.kind == "text") == "hi"
    assert thinking_of(events) == ("hm" if thought("hm") in frames else "")
    assert {item.index for item in closed(events)} == set(range(len(closed(events))))
    assert events[-1] == Finished("stop")


def test_what_has_the_id_of_something_else_is_not_lost() -> None:
    final = ended("completed", status="completed", output=[MESSAGE, CALL | {"id": "m"}])
    assert calls(heard(text("hi"), done(MESSAGE), final)) == [("c", "f", '{"a":1}')]
    final = ended("completed", status="completed", output=[REASONING, MESSAGE | {"id": "rs"}])
    assert text_of(heard(added(REASONING), thought("hm"), done(REASONING), final)) == "hi"


def test_events_without_an_index_go_by_their_item() -> None:
    def bare(event: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in event.items() if key != "output_index"}

    events = heard(
        bare(added({"type": "message", "id": "m"})),
        bare(text("hi")),
        bare(done(MESSAGE)),
        bare(added(CALL | {"arguments": ""})),
        bare(args('{"a":1}')),
        bare(done(CALL)),
        COMPLETED,
    )
    assert closed(events) == [ItemClosed(0, "text", "hi"), ItemClosed(1, "tool", '{"a":1}', "c", "f")]


def test_thinking_as_text_and_its_parts() -> None:
    def part_of(delta: str, part: int) -> dict[str, object]:
        return {
            "type": "response.reasoning_text.delta",
            "output_index": 0,
            "content_index": part,
            "delta": delta,
        }

    item = {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "ab"}]}
    events = heard(added(item), part_of("a", 0), part_of("b", 0), part_of("c", 1), done(item), COMPLETED)
    assert thinking_of(events) == "ab\n\nc"
    assert closed(events) == [ItemClosed(0, "reasoning", "ab\n\nc")]
    assert ReasoningPiece(0, "\n\nc") in events


def test_a_refusal_is_heard_and_is_the_outcome() -> None:
    refused = MESSAGE | {"content": [{"type": "refusal", "refusal": "No."}]}
    piece = {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}
    for events in (heard(piece, done(refused), COMPLETED), heard(done(refused), COMPLETED)):
        assert text_of(events) == "No."
        assert closed(events) == [ItemClosed(0, "text", "No.")]
        assert events[-1] == Finished("refused")


@for_each_row(
    "name",
    [
        "response.created",
        "response.in_progress",
        "response.queued",
        "response.content_part.added",
        "response.output_text.done",
        "response.web_search_call.searching",
        "response.something_new",
        "keepalive",
    ],
)
def test_other_events_are_lifecycle(name: str) -> None:
    assert heard({"type": name, "delta": {"any": 1}, "item": [1], "response": 7}) == [Lifecycle(name)]


def test_items_that_are_not_for_us_are_lifecycle() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}
    events = heard(added(search), done(search), text("hi", 1), COMPLETED)
    assert events[:2] == [Lifecycle("response.output_item.added"), Lifecycle("response.output_item.done")]
    assert text_of(events) == "hi"


@for_each_row(
    ("frame", "expected"),
    [
        (
            ended("failed", status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}),
            ("slow", "rate_limit_exceeded", "", 0),
        ),
        (ended("failed", status="failed", error=None), ("no reason given", "", "", 0)),
        (
            ended("done", status="failed", error={"code": "server_error", "message": "x"}),
            ("x", "server_error", "", 0),
        ),
        (ended("cancelled", status="cancelled"), ("no reason given", "", "", 0)),
        (ended("completed", status="failed", error={"message": "x"}), ("x", "", "", 0)),
        (ended("completed", status="cancelled"), ("no reason given", "", "", 0)),
        (
            {"type": "error", "code": "server_error", "message": "boom", "param": None},
            ("boom", "server_error", "error", 0),
        ),
        (
            {"type": "error", "status": 429, "error": {"type": "usage_limit_reached", "message": "limit"}},
            ("limit", "", "usage_limit_reached", 429),
        ),
        ({"error": {"message": "bare", "code": "x"}}, ("bare", "x", "", 0)),
        ({"detail": "Unsupported parameter"}, ("Unsupported parameter", "", "", 0)),
    ],
)
def test_errors_inside_the_stream(frame: object, expected: tuple[str, str, str, int]) -> None:
    parser = ResponsesParser()
    events = read(parser, stream(text("hi"), frame, COMPLETED))
    (error,) = errors(events)
    assert (error.message, error.code, error.kind, error.status) == expected
    assert events[-1] == error
    assert not parser.finished


def test_an_event_that_is_named_only_outside_its_data() -> None:
    wire = (
        b'event: response.output_text.delta\ndata: {"delta":"hi"}\n\nevent: response.completed\ndata: {}\n\n'
    )
    assert read(ResponsesParser(), wire) == [
        ItemOpened(0, "text"),
        TextPiece(0, "hi"),
        ItemClosed(0, "text", "hi"),
        Finished("stop"),
    ]


@for_each_row(
    "frames",
    [
        [done(MESSAGE), text("more")],
        [added(CALL), text("text")],
        [{"type": "response.output_text.delta", "delta": 5}],
        [ended("done", status="queued")],
        [text("x", at) for at in range(1001)],
    ],
)
def test_what_breaks_the_protocol_is_malformed(frames: list[object]) -> None:
    with pytest.raises(MalformedFrame):
        heard(*frames)


def test_a_whole_answer_instead_of_a_stream() -> None:
    parser = ResponsesParser()
    body = {
        "object": "response",
        "status": "completed",
        "output": [MESSAGE, CALL],
        "usage": {"input_tokens": 4},
    }
    events = parser.answer(json.dumps(body).encode())
    assert events[:3] == [ItemOpened(0, "text"), TextPiece(0, "hi"), ItemClosed(0, "text", "hi")]
    assert events[-2:] == [TokensUsed(input_tokens=4), Finished("tools")]
    assert parser.finished
    assert errors(ResponsesParser().answer(b'{"error":{"message":"no"}}'))[0].message == "no"
    with pytest.raises(MalformedFrame):
        ResponsesParser().answer(b"<html>")


def test_the_phase_of_a_message_is_kept_from_its_opening_or_its_closing() -> None:
    opened, closing = MESSAGE | {"phase": "commentary"}, MESSAGE | {"phase": "final_answer"}
    (kept,) = closed(heard(added(opened), text("hi"), done(MESSAGE), COMPLETED))
    assert kept == ItemClosed(0, "text", "hi", phase="commentary")
    (last,) = closed(heard(added(opened), text("hi"), done(closing), COMPLETED))
    assert last.phase == "final_answer"
    (late,) = closed(heard(text("hi"), ended("completed", status="completed", output=[closing])))
    assert late.phase == "final_answer"


def test_the_phase_of_a_whole_answer_is_kept() -> None:
    items = [MESSAGE | {"phase": "commentary"}, MESSAGE | {"phase": "final_answer"}]
    body = json.dumps({"status": "completed", "output": items}).encode()
    assert [item.phase for item in closed(ResponsesParser().answer(body))] == ["commentary", "final_answer"]


@for_each_row("odd", [None, 7, {"name": "commentary"}, "", "Two words", "x" * 41, 'a"b'])
def test_a_phase_that_is_no_word_is_left_out_and_breaks_nothing(odd: object) -> None:
    (item,) = closed(heard(added(MESSAGE | {"phase": odd}), done(MESSAGE | {"phase": odd}), COMPLETED))
    assert item == ItemClosed(0, "text", "hi")


def test_only_messages_have_a_phase() -> None:
    (item,) = closed(heard(done(CALL | {"phase": "commentary"}), COMPLETED))
    assert item.phase == ""
