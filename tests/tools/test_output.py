"""Output: cleaned as a terminal would leave it, bounded in memory, whatever comes."""

import asyncio
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tools.shell.background import Background
from holdfast.tools.shell.output import WHOLE_BYTES_MAX, Capture, LiveText, Shown, cleaned, shorten
from tools.calls import Call, shell

pytestmark = pytest.mark.long


def test_text_is_what_a_terminal_would_leave() -> None:
    texts = [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38:2::255:0:0mrgb\x1b[m", "rgb"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1bPsixel\x1b\\text", "text"),
        ("\x1b(Btext\x1b=", "text"),
        ("\x9b31m\x90text", "31mtext"),
        ("nul\x00bell\x07\x7f", "nulbell"),
        ("unclosed \x1b]0;and what follows\nstays", "unclosed 0;and what follows\nstays"),
        ("lines\r\nend\r\n", "lines\nend\n"),
        ("  0%\r 50%\r100%\ndone", "100%\ndone"),
        ("half\r\x1b[Kwhole", "whole"),
        ("kept\r", "kept"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("____\b\b\b\bword", "word"),
        ("\b\bx", "x"),
    ]
    assert [(raw, cleaned(raw)) for raw, _ in texts] == texts


def test_cleaning_takes_time_in_proportion_even_on_what_is_made_to_be_slow() -> None:
    # Two million characters: quadratic work would not end today.
    for piece in ("\x1b[", "\x1b]", "\x1b", "\x1b[0", "\x1bP;", "\r", "\b", "\x1b[\x1b]", "a\b\r"):
        assert "\x1b" not in cleaned(piece * (2_000_000 // len(piece))), repr(piece)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.text(alphabet="ab\x1b[]0;m\x07\\\nä€😀"), st.lists(st.integers(0, 1000)))
@settings(max_examples=200)
def test_live_text_is_the_same_however_it_is_cut(text: str, places: list[int]) -> None:
    live = LiveText()
    data = text.encode()
    assert "".join([*map(live.feed, cut(data, places)), live.end()]) == cleaned(text)


def test_live_text_shows_each_state_of_a_progress_bar_as_a_line() -> None:
    live = LiveText()
    pieces = [b"10%", b"\r20%", b"\r30%\r40%", b"\r\n", b"done\r", b"\nx"]
    assert "".join([*map(live.feed, pieces), live.end()]) == "10%\n20%\n40%\ndone\nx"


def test_a_long_text_is_shown_by_its_ends() -> None:
    assert shorten("abc", Shown(head_chars=1, tail_chars=2)) == ("abc", "")
    text, left_out = shorten("abcdef", Shown(head_chars=1, tail_chars=2))
    assert text == "a\n[… 3 of 6 characters omitted here …]\nef"
    assert left_out == "3 of 6 characters omitted"


def test_a_capture_stays_small_and_says_what_it_dropped() -> None:
    capture = Capture()
    line = b"0123456789abcde\n" * 4096
    for _ in range(1000):
        capture.take(line)
    text, left_out = capture.text()
    assert capture.total_bytes == 65_536_000
    assert len(text) < 31_000
    assert left_out == "65,506,000 of 65,536,000 bytes omitted"
    capture.close()


async def test_what_is_kept_ends_at_a_stated_maximum() -> None:
    capture = Capture()
    for _ in range(WHOLE_BYTES_MAX // 65_536 + 5):
        await asyncio.to_thread(capture.take, b"x" * 65_536)
    call = Call(workspace=Path())
    name, lack = await capture.keep(call.blobs)
    assert lack == f"Only the first {WHOLE_BYTES_MAX:,} bytes are stored."
    assert len(await call.blobs.blob(name) or b"") == WHOLE_BYTES_MAX
    capture.close()


@pytest.fixture
def traced() -> Iterator[None]:
    """Counts what Python allocates. The process's own size also grows when the system swaps it in again."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("source", ["yes | head -c 268435456", "head -c 268435456 /dev/zero"])
async def test_a_flood_of_output_does_not_fill_the_memory(
    background: Background, call: Call, source: str
) -> None:
    result = await shell(background).run({"command": source}, call)
    assert result.ok
    assert "of 268,435,456 bytes omitted" in result.text
    assert "Only the first 33,554,432 bytes are stored." in result.text
    # The blob itself passes through the memory once or twice; the flood does not.
    assert tracemalloc.get_traced_memory()[1] < 80 * 1024 * 1024
    assert len(call.said) < 1_200_000
