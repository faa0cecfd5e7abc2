"""Every wire: a stream may be cut anywhere, and nothing that arrives raises anything but MalformedFrame."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model_events import ErrorReported, Finished, Lifecycle, ModelEvent, TokensUsed
from holdfast.models.anthropic import AnthropicParser
from holdfast.models.chat_completions import ChatParser
from holdfast.models.responses import ResponsesParser
from holdfast.models.sse import MalformedFrame, SseFrame, SseParser
from holdfast.models.wire import StreamParser
from tables import for_each_row

from .reading import read, recorded

BOUNDED = settings(max_examples=60)
WIRES: dict[str, Callable[[], StreamParser]] = {
    "chat_openai": ChatParser,
    "anthropic": AnthropicParser,
    "responses_openai": ResponsesParser,
    "responses_codex": ResponsesParser,
}


def words(value: object) -> set[str]:
    """All keys and strings of a JSON value."""
    if isinstance(value, dict):
        return {word for pair in value.items() for part in pair for word in words(part)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return {word for part in value for word in words(part)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return {value} if isinstance(value, str) else set()


def frames_of(name: str) -> list[SseFrame]:
    return SseParser().feed(recorded(name))


def vocabulary(name: str) -> st.SearchStrategy[object]:
    """JSON in the words of a wire, in any order."""
    known = {
        word for frame in frames_of(name) if frame.data[:1] == b"{" for word in words(json.loads(frame.data))
    }
    word = st.sampled_from(sorted(known | {"error", "length", "message", "detail", "index"}))
    leaf = st.none() | st.booleans() | st.integers(-1, 3) | st.just(2**70) | st.floats(allow_nan=False) | word
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(word, inner, max_size=5)
    )


def check(parser: StreamParser, frames: list[SseFrame]) -> None:
    """Nothing but events or MalformedFrame; nothing after an ending."""
    over = False
    try:
        for frame in frames:
            events = parser.parse(frame)
            assert not (over and events)
            over = over or any(isinstance(event, Finished | ErrorReported) for event in events)
        assert not (over and parser.end())
    except MalformedFrame:
        return


@for_each_row("name", WIRES)
def test_any_cut_of_a_stream_gives_the_same_events(name: str) -> None:
    data = recorded(name)
    expected = read(WIRES[name](), data)

    @BOUNDED
    @given(st.lists(st.integers(0, len(data)), max_size=12))
    def holds(places: list[int]) -> None:
        edges = [0, *sorted(places), len(data)]
        assert read(WIRES[name](), [data[start:end] for start, end in pairwise(edges)]) == expected

    holds()
    assert read(WIRES[name](), data.replace(b"\n", b"\r\n")) == expected
    assert read(WIRES[name](), [data[at : at + 1] for at in range(len(data))]) == expected


@for_each_row("name", WIRES)
def test_a_stream_that_ends_early_is_never_finished(name: str) -> None:
    frames = frames_of(name)
    ends = {"chat_openai": b'finish_reason":"tool_calls', "anthropic": b"message_stop"}
    marker = ends.get(name, b"response.completed")
    last = next(at for at, frame in enumerate(frames) if marker in frame.data)
    for cut in range(last + 1):
        parser = WIRES[name]()
        events = [event for frame in frames[:cut] for event in parser.parse(frame)]
        assert not any(isinstance(event, Finished) for event in [*events, *parser.end()])
        assert not parser.finished


@for_each_row("name", WIRES)
def test_damaged_frames_are_events_or_malformed(name: str) -> None:
    frames = frames_of(name)

    @BOUNDED
    @given(st.integers(0, len(frames) - 1), st.integers(0, 400), st.integers(0, 20), st.binary(max_size=6))
    def holds(nth: int, at: int, gone: int, instead: bytes) -> None:
        data = frames[nth].data
        damaged = SseFrame(frames[nth].event, data[:at] + instead + data[at + gone :])
        check(WIRES[name](), [*frames[:nth], damaged, *frames[nth:]])

    holds()


@for_each_row("name", WIRES)
def test_frames_left_out_repeated_or_out_of_order_are_events_or_malformed(name: str) -> None:
    frames = frames_of(name)

    @BOUNDED
    @given(st.lists(st.sampled_from(range(len(frames))), max_size=30))
    def holds(order: list[int]) -> None:
        check(WIRES[name](), [frames[nth] for nth in order])

    holds()


@for_each_row("name", WIRES)
def test_any_json_in_the_words_of_the_wire_is_events_or_malformed(name: str) -> None:
    kinds = sorted(
        {json.loads(frame.data).get("type", "") for frame in frames_of(name) if frame.data[:1] == b"{"}
    )
    value = vocabulary(name)

    @BOUNDED
    @given(st.lists(st.tuples(st.sampled_from(kinds), value), max_size=4))
    def holds(drawn: list[tuple[str, object]]) -> None:
        bodies = [
            json.dumps({"type": kind, **body} if isinstance(body, dict) else body).encode()  # pyright: ignore[reportUnknownArgumentType]
            for kind, body in drawn
        ]
        check(WIRES[name](), [SseFrame(b"", body) for body in bodies])
        for body in bodies:
            try:
                WIRES[name]().answer(body)
            except MalformedFrame:
                continue

    holds()


@pytest.mark.parametrize("name", WIRES)
@BOUNDED
@given(data=st.binary(max_size=60), event=st.binary(max_size=8))
def test_arbitrary_bytes_are_events_or_malformed(name: str, data: bytes, event: bytes) -> None:
    check(WIRES[name](), [SseFrame(event, data)])
    try:
        WIRES[name]().answer(data)
    except MalformedFrame:
        return


@for_each_row("name", WIRES)
@for_each_row("data", [b"{", b"null", b"[]", b"hello", b'{"type":"x","a":' + b"[" * 100_000])
def test_what_is_not_the_protocol_is_malformed(name: str, data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        WIRES[name]().parse(SseFrame(b"", data))


def with_odd(value: Any, odd: object, *, where: int) -> Any:
    """The JSON value with odd usage: 0 replaces the usage object, 1 every value in it."""
    if isinstance(value, list):
        return [with_odd(part, odd, where=where) for part in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    used = table.get("usage")
    changed = {key: with_odd(part, odd, where=where) for key, part in table.items()}
    if isinstance(used, dict):
        changed["usage"] = dict.fromkeys(cast("dict[str, Any]", used), odd) if where else odd
    return changed


def without_usage(events: list[ModelEvent]) -> list[ModelEvent]:
    return [event for event in events if not isinstance(event, TokensUsed | Lifecycle)]


@pytest.mark.parametrize("odd", ["12", "many", 1.5, True, None, [], {}, 2**70], ids=repr)
@pytest.mark.parametrize("name", WIRES)
def test_an_answer_is_whole_whatever_its_usage_says(name: str, odd: object) -> None:
    """P4: a count of the wrong type doesn't fail an answer that is paid for."""
    expected = without_usage(read(WIRES[name](), recorded(name)))
    for where in (0, 1):
        parser, events = WIRES[name](), list[ModelEvent]()
        for frame in frames_of(name):
            is_json = frame.data[:1] == b"{"
            odd_json = json.dumps(with_odd(json.loads(frame.data), odd, where=where)) if is_json else ""
            events += parser.parse(SseFrame(frame.event, odd_json.encode() or frame.data))
        assert without_usage([*events, *parser.end()]) == expected
