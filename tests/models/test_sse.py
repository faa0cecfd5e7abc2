"""Frames come out the same however the bytes were cut, and a frame has a greatest length."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.models.sse import MalformedFrame, SseFrame, SseParser
from tables import for_each_row

BOUNDED = settings(max_examples=60)
LINES = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data",
        b"data: a\xf0\x9f\x8c\x8d",
        b"event: e",
        b"event:",
        b": comment",
        b":",
        b"id: 1",
        b"retry: 5",
        b"error: {}",
        b"unknown",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def frames_of(*pieces: bytes) -> list[tuple[bytes, bytes]]:
    parser = SseParser()
    frames = [frame for piece in pieces for frame in parser.feed(piece)] + parser.end()
    return [(frame.event, frame.data) for frame in frames]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@for_each_row(
    ("data", "frames"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\r", [(b"", b"a")]),
        (b"data: a\r\n\n", [(b"", b"a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\n\n", [(b"", b"")]),
        (b"event: e\ndata: a\n\ndata: b\n\n", [(b"e", b"a"), (b"", b"b")]),
        (b"data: a\nevent: e\n\n", [(b"e", b"a")]),
        (b"event: e\n\ndata: a\n\n", [(b"", b"a")]),
        (b"id: 7\nretry: 9\ndata: a\n\n", [(b"", b"a")]),
        (b"\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"data: \xef\xbb\xbfa\n\n", [(b"", b"\xef\xbb\xbfa")]),
        (b": hello\ndata: a\n\n", [(b"", b"a")]),
        (b'error: {"code":400}\n\n', [(b"error", b'{"code":400}')]),
        (b"data: [DONE]\n", [(b"", b"[DONE]")]),
        (b"data: a\n\ndata: half", [(b"", b"a")]),
        (b"", []),
    ],
)
def test_the_forms_of_a_frame(data: bytes, frames: list[tuple[bytes, bytes]]) -> None:
    assert frames_of(data) == frames
    assert frames_of(*(data[at : at + 1] for at in range(len(data)))) == frames


@BOUNDED
@given(
    st.booleans(), st.lists(st.tuples(LINES, ENDS), max_size=12), st.lists(st.integers(0, 200), max_size=8)
)
def test_any_cut_of_the_stream_gives_the_same_frames_and_comments(
    bom: bool,  # noqa: FBT001 - drawn by hypothesis
    lines: list[tuple[bytes, bytes]],
    places: list[int],
) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + end for line, end in lines)
    whole, pieces = SseParser(), SseParser()
    expected = whole.feed(data) + whole.end()
    found = [frame for piece in cut(data, places) for frame in pieces.feed(piece)] + pieces.end()
    assert found == expected
    assert pieces.comments == whole.comments


@BOUNDED
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_arbitrary_bytes_are_frames_or_nothing(data: bytes, places: list[int]) -> None:
    assert frames_of(*cut(data, places)) == frames_of(data)


def test_comments_are_counted_and_are_no_frames() -> None:
    parser = SseParser()
    assert parser.feed(b": keep-alive\n\n: OPENROUTER PROCESSING\n\n") == []
    assert parser.comments == 2


def test_a_large_frame_in_small_pieces_is_whole() -> None:
    data = b"x" * 300_000
    parser = SseParser()
    wire = b"data: " + data + b"\n\n"
    frames = [frame for at in range(0, len(wire), 7) for frame in parser.feed(wire[at : at + 7])]
    assert frames == [SseFrame(b"", data)]


@for_each_row("step", [1, 50, 10_000])
@for_each_row("line", [b"data: " + b"x" * 100, b"data: x\n" * 13, b": " + b"x" * 120])
def test_a_frame_past_the_greatest_length_is_malformed(line: bytes, step: int) -> None:
    parser = SseParser(frame_bytes_max=100)
    wire = line + b"\n\n"
    with pytest.raises(MalformedFrame):
        _ = [parser.feed(wire[at : at + step]) for at in range(0, len(wire), step)]


def test_many_frames_that_are_together_past_the_greatest_length_are_fine() -> None:
    parser = SseParser(frame_bytes_max=100)
    assert len(parser.feed(b"data: 12345678\n\n" * 100)) == 100


def test_a_stream_has_a_greatest_length() -> None:
    parser = SseParser(stream_bytes_max=100)
    parser.feed(b"data: x\n\n" * 10)
    with pytest.raises(MalformedFrame):
        parser.feed(b"data: x\n\n" * 10)
