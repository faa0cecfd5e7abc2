"""No secret of this server is in what the relay passes on, however it is escaped or cut into deltas."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from holdfast.chaos import ChaosServer, Drop, Raw, Say, Status
from holdfast.model_events import ItemClosed
from holdfast.models.adapters import ADAPTERS
from holdfast.models.sse import SseFrame
from holdfast.redaction import MARK, Redactor
from holdfast.server.relay.lifecycle import RelayParser
from holdfast.server.relay.redacting import ITEMS_MAX, FrameFilter
from holdfast.targets import Wire
from server.relay.relaying import KEY, PATHS, WIRES, body_for, relaying, target_on, text_by_package
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


def passed(pieces: list[str], delta: Callable[[str], dict[str, Any]], *, bytes_each: int) -> list[bytes]:
    """What a client gets at each step, if the frames of these deltas come in pieces of some bytes."""
    redacting, shown = FrameFilter(Redactor([KEY])), list[bytes]()
    for text in pieces:
        frame = f"data: {json.dumps(delta(text))}\n\n".encode()
        parts = [frame[at : at + bytes_each] for at in range(0, len(frame), bytes_each)]
        for at, part in enumerate(parts):
            if at == len(parts) - 1:  # the parser has an event once its frame is whole
                redacting.add_text(0, text)
            shown.append(redacting.feed(part))
    redacting.add_event(ItemClosed(0, "text", "".join(pieces)))
    return [*shown, redacting.feed(b"data: {}\n\n"), redacting.flush()]


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
    frames = b"".join(passed(pieces, delta, bytes_each=bytes_each)).decode().split("\n\n")
    shown = "".join(text_in(json.loads(frame[6:])) for frame in frames[:-2])
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


@for_each_row(
    ("delta", "wire"),
    [
        (in_second_choice, "chat"),
        (in_both_choices, "chat"),
        (as_reasoning, "chat"),
        (as_summary, "responses"),
        (as_unknown_event, "responses"),
        (as_thinking, "anthropic"),
    ],
)
@for_each_row("chars", [1, 5])
def test_a_key_is_caught_in_every_choice_and_kind_of_text(
    delta: Callable[[str], dict[str, Any]], wire: Wire, chars: int
) -> None:
    """P11: also where no parser reads, because the relay passes everything on."""
    redacting, shown = FrameFilter(Redactor([KEY])), b""
    parser, whole = RelayParser(ADAPTERS[wire].parser(), redacting), BEFORE + KEY + AFTER
    for at in range(0, len(whole), chars):
        data = json.dumps(delta(whole[at : at + chars])).encode()
        for event in parser.parse(SseFrame(b"", data)):
            redacting.add_event(event)
        piece = redacting.feed(b"data: " + data + b"\n\n")
        assert KEY[:4].encode() not in piece
        shown += piece
    shown += redacting.flush()
    texts = [text for frame in shown.decode().split("\n\n")[:-1] for text in strings(json.loads(frame[6:]))]
    assert KEY[4:] not in "".join(text for text in texts if text not in {"c", "i", "r", "other"})
    assert MARK in shown.decode()


def strings(value: Any) -> list[str]:
    """The texts of a JSON value, without what names their kind."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return [text for key, part in table.items() if key != "type" for text in strings(part)]
    if isinstance(value, list):
        return [text for part in cast("list[Any]", value) for text in strings(part)]
    return [value] if isinstance(value, str) else []


def test_places_without_end_are_forgotten() -> None:
    """P10: a provider can't fill the memory with names."""
    redacting = FrameFilter(Redactor([KEY]))
    for nth in range(ITEMS_MAX + 1):
        redacting.add_frame(json.dumps({f"name{nth}": KEY[:9]}).encode(), ())
    for nth in range(1, ITEMS_MAX + 1):
        assert not redacting.feed(b"data: {}\n\n")
        redacting.add_frame(json.dumps({f"name{nth}": "!"}).encode(), ())
    assert redacting.feed(b"data: {}\n\n")


def test_other_text_passes_at_once_and_unchanged() -> None:
    shown = passed(["skeptics ", "say sk", "-no"], in_chat, bytes_each=10_000)
    assert all(shown[:3])
    held = passed(["it is sk-up", "town"], in_chat, bytes_each=10_000)
    assert held[0] == b""
    assert held[1].count(b"data: ") == 2


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
