"""Bodies that aren't JSON, or that no program can read: a clear 400, whatever target they would go to."""

import codecs
import json
from typing import Any

from features.relay.relaying import PATHS, body_for, relaying, target_on
from holdfast.chaos import ChaosServer, Say
from holdfast.targets import Wire
from side_by_side import on_each_wire

UNREADABLE = {
    "text that isn't UTF-8": b'"\xff\xfe"',
    "a number without end": b"9" * 10_000,
    "an exponent without end": b"1e999999",
    "half of a surrogate pair": b'"\\ud800"',
    "brackets without end": b"[" * 5000 + b"]" * 5000,
}


def with_field(wire: Wire, value: bytes, *, name: str) -> bytes:
    """A request with one more field, whose value is these bytes."""
    return json.dumps(body_for(wire))[:-1].encode() + b', "%b": %b}' % (name.encode(), value)


@on_each_wire
async def test_what_no_program_can_read_is_refused_before_a_target_of_another_wire_is_asked(
    wire: Wire,
) -> None:
    """P12: bad input gets a clear error."""
    other: Wire = "chat" if wire == "anthropic" else "anthropic"
    async with ChaosServer([Say("hi")]) as chaos, relaying(target_on(chaos, other)) as server:
        for what, value in UNREADABLE.items():
            body = with_field(wire, value, name="metadata")
            answer = await server.call("POST", PATHS[wire], body=body)
            assert answer.status == 400, what
            assert b"JSON" in answer.body, what
        assert not chaos.seen.requests


async def test_on_the_same_wire_text_that_is_not_utf_8_is_refused_and_a_byte_order_mark_is_not() -> None:
    """A provider would answer such text with an error, and perhaps be asked again."""
    async with ChaosServer([Say("hello")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        for path in (PATHS["chat"], "/v1/embeddings"):
            answer = await server.call("POST", path, body=b'{"model": "main", "input": "\xff"}')
            assert (answer.status, b"Invalid JSON" in answer.body) == (400, True)
        assert not chaos.seen.requests
        body = codecs.BOM_UTF8 + json.dumps(body_for("chat")).encode()
        answer = await server.call("POST", PATHS["chat"], body=body)
        assert (answer.status, b"hello" in answer.body) == (200, True)


async def test_arguments_of_a_call_that_nest_without_end_are_passed_on_as_text() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":' + "[" * 5000}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]
    async with ChaosServer([Say("hello")]) as chaos, relaying(target_on(chaos, "anthropic")) as server:
        status, _ = await server.post(PATHS["chat"], body_for("chat", messages=messages))
        assert status == 200


async def test_an_agent_refuses_what_no_program_can_read_in_fields_that_it_does_not_honour() -> None:
    async with ChaosServer([Say("hi")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        for name in ("include", "prompt", "moderation"):
            body = with_field("responses", b"[1e999999]", name=name).replace(b'"main"', b'"holdfast"')
            answer = await server.call("POST", PATHS["responses"], body=body)
            assert answer.status == 400, name
