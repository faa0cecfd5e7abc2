"""Half a character, as gateways send that cut text by UTF-16: text survives, a tool call is never mended."""

import json
from collections.abc import Callable

import pytest

from holdfast.models.anthropic import AnthropicParser
from holdfast.models.chat_completions import ChatParser
from holdfast.models.responses import ResponsesParser
from holdfast.models.sse import MalformedFrame
from holdfast.models.wire import StreamParser
from tables import for_each_row

from .reading import read_open, stream, text_of

SMILE = "\ud83d\ude00"  # in two halves

WIRES: dict[str, Callable[[], StreamParser]] = {
    "chat": ChatParser,
    "anthropic": AnthropicParser,
    "responses": ResponsesParser,
}


def text(wire: str, said: str) -> object:
    frames: dict[str, object] = {
        "chat": {"choices": [{"delta": {"content": said}}]},
        "anthropic": {"type": "content_block_delta", "index": 0, "delta": {"text": said}},
        "responses": {"type": "response.output_text.delta", "output_index": 0, "delta": said},
    }
    return frames[wire]


def arguments(wire: str, said: str) -> list[object]:
    args = json.dumps({"text": "?"}).replace("?", said)
    call = {"type": "tool_use", "id": "c", "name": "write"}
    frames: dict[str, list[object]] = {
        "chat": [{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": args}}]}}]}],
        "anthropic": [
            {"type": "content_block_start", "index": 0, "content_block": call},
            {"type": "content_block_delta", "index": 0, "delta": {"partial_json": args}},
        ],
        "responses": [{"type": "response.function_call_arguments.delta", "output_index": 0, "delta": args}],
    }
    return frames[wire]


@for_each_row("wire", WIRES)
@for_each_row(
    ("said", "heard"),
    [
        (["so ", SMILE[0], SMILE[1], "!"], "so ��!"),
        ([f"a{SMILE[0]}b{SMILE[1]}c"], "a�b�c"),
        ([f"{SMILE[1]}{SMILE[0]}{SMILE[0]}{SMILE[1]}"], "��\U0001f600"),
        ([f"\\{SMILE[0]}\\ud83d"], "\\�\\ud83d"),
    ],
)
def test_text_with_half_a_character_is_text(wire: str, said: list[str], heard: str) -> None:
    frames = [text(wire, piece) for piece in said]
    assert text_of(read_open(WIRES[wire](), stream(*frames))) == heard


@for_each_row("wire", WIRES)
def test_arguments_with_half_a_character_are_malformed(wire: str) -> None:
    """P4: what a tool is called with is what the model wrote, or nothing."""
    read_open(WIRES[wire](), stream(*arguments(wire, SMILE)))
    with pytest.raises(MalformedFrame):
        read_open(WIRES[wire](), stream(*arguments(wire, SMILE[0])))
