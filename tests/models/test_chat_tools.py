"""Tool calls on the Chat Completions wire, where every server has its own way."""

import pytest

from holdfast.model_events import Finished, ItemClosed, ItemOpened
from holdfast.models.sse import MalformedFrame
from tables import for_each_row

from .chat_frames import DONE, called, delta, finish, heard
from .reading import calls, closed


@for_each_row("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_closes_no_tool_call(reason: str) -> None:
    half = delta(tool_calls=[called("f", '{"a":', index=0, id="c")])
    events = heard(delta(content="hi"), half, finish(reason), DONE)
    assert calls(events) == []
    assert closed(events) == [ItemClosed(0, "text", "hi")]


def test_arguments_that_are_no_json_stay_as_they_came() -> None:
    events = heard(delta(tool_calls=[called("f", '{"a":', index=0, id="c")]), finish("tool_calls"), DONE)
    assert calls(events) == [("c", "f", '{"a":')]


@for_each_row("args", ["", None, "   "])
def test_empty_arguments_are_an_empty_object(args: str | None) -> None:
    events = heard(delta(tool_calls=[called("f", args, index=0, id="c")]), finish("tool_calls"))
    assert calls(events) == [("c", "f", "{}")]


@for_each_row(("args", "text"), [({"a": [1]}, '{"a": [1]}'), ({}, "{}"), ([], "{}"), ([1], "[1]")])
def test_arguments_as_json_instead_of_a_string(args: object, text: str) -> None:
    events = heard(delta(tool_calls=[called("f", args, index=0, id="c")]), finish("tool_calls"))
    assert calls(events) == [("c", "f", text)]


def test_whole_calls_in_one_chunk_with_the_finish_as_ollama_sends_them() -> None:
    both = [called("f", "{}", index=0, id="a"), called("g", '{"x":1}', index=1, id="b")]
    chunk = {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "tool_calls": both}}],
        "usage": None,
    }
    events = heard(chunk, finish("stop"), DONE)
    assert calls(events) == [("a", "f", "{}"), ("b", "g", '{"x":1}')]
    assert events[-1] == Finished("tools", "stop")


def test_calls_without_an_index_as_gemini_sends_them() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    events = heard(
        delta(tool_calls=[called("f", '{"a":', id="1", extra_content=signature)]),
        delta(tool_calls=[called("", "1}")]),
        delta(tool_calls=[called("f", "{}", id="2"), called("g", "{}", id="3")]),
        finish("stop"),
        DONE,
    )
    assert calls(events) == [("1", "f", '{"a":1}'), ("2", "f", "{}"), ("3", "g", "{}")]
    assert closed(events)[0].opaque == {"extra_content": '{"google": {"thought_signature": "c2ln"}}'}


def test_pieces_without_an_index_go_by_their_id() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a":', id="1"), called("g", '{"b":', id="2")]),
        delta(tool_calls=[called("", "1}", id="1"), called("", "2}", id="2")]),
        finish("tool_calls"),
    )
    assert calls(events) == [("1", "f", '{"a":1}'), ("2", "g", '{"b":2}')]


def test_one_index_for_two_calls() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a":1}', index=0, id="1")]),
        delta(tool_calls=[called("f", '{"a":2}', index=0, id="2")]),
        finish("tool_calls"),
    )
    assert calls(events) == [("1", "f", '{"a":1}'), ("2", "f", '{"a":2}')]


def test_one_index_and_no_id_for_two_calls() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a":1}', index=0, id="")]),
        delta(tool_calls=[called("f", '{"a":2}', index=0, id="")]),
        delta(tool_calls=[called("g", "{}", index=0, id="")]),
        finish("tool_calls"),
    )
    assert calls(events) == [("", "f", '{"a":1}'), ("", "f", '{"a":2}'), ("", "g", "{}")]


def test_one_index_no_id_and_a_name_that_is_repeated_is_one_call_until_it_is_whole() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a":', index=0)]),
        delta(tool_calls=[called("f", '{"b":1}}', index=0)]),
        finish("tool_calls"),
    )
    assert calls(events) == [("", "f", '{"a":{"b":1}}')]


def test_a_new_id_with_every_piece_does_not_make_new_calls() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a"', index=0, id="x1")]),
        delta(tool_calls=[called("", ":1", index=0, id="x2")]),
        delta(tool_calls=[called("", "}", index=0, id="x3")]),
        finish("tool_calls"),
    )
    assert calls(events) == [("x1", "f", '{"a":1}')]


def test_a_name_that_is_repeated_and_an_id_that_comes_late() -> None:
    events = heard(
        delta(tool_calls=[called("f", '{"a"', index=0)]),
        delta(tool_calls=[called("f", ":1}", index=0, id="late")]),
        finish("tool_calls"),
    )
    assert calls(events) == [("late", "f", '{"a":1}')]
    assert ItemOpened(0, "tool", "", "f") in events


def test_calls_that_are_interleaved() -> None:
    events = heard(
        delta(tool_calls=[called("f", "", index=0, id="a"), called("g", "", index=1, id="b")]),
        delta(tool_calls=[called("", '{"b":', index=1), called("", '{"a":', index=0)]),
        delta(tool_calls=[called("", "1}", index=0), called("", "2}", index=1)]),
        finish("tool_calls"),
    )
    assert calls(events) == [("a", "f", '{"a":1}'), ("b", "g", '{"b":2}')]


def test_the_old_function_call() -> None:
    events = heard(
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"a":1}'}),
        finish("function_call"),
        DONE,
    )
    assert calls(events) == [("", "f", '{"a":1}')]
    assert events[-1] == Finished("tools", "function_call")


def test_an_answer_has_a_greatest_number_of_items() -> None:
    many = [called("f", "{}", index=index, id=f"c{index}") for index in range(1001)]
    with pytest.raises(MalformedFrame):
        heard(delta(tool_calls=many))
