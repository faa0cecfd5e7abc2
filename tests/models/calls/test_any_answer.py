"""Answers as servers and gateways really send them: under wrong names, packed, or no answers at all."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from holdfast.chaos import Drop, Say
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Target, Wire
from side_by_side import on_each_wire
from stream_server import stream_server
from tables import for_each_row

from .calling import WIRES, Line, line_of, line_to

Made = Callable[[Wire], bytes]

FRAMES: dict[Wire, list[dict[str, object]]] = {
    "chat": [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"content": "hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    "responses": [
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "hello"},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"type": "message", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
}
WHOLE: dict[Wire, dict[str, object]] = {
    "chat": {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}],
    },
    "anthropic": {
        "type": "message",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
    },
}
BUSY = b'{"error": {"message": "Come back later.", "type": "overloaded_error"}}'
STREAM = "text/event-stream"
BOM = b"\xef\xbb\xbf"


def sse(wire: Wire, field: str = "data: ", end: str = "\n") -> bytes:
    datas = [json.dumps(frame) for frame in FRAMES[wire]] + ["[DONE]"] * (wire == "chat")
    return "".join(f"{field}{data}{end}{end}" for data in datas).encode()


def whole(wire: Wire, indent: int | None = None) -> bytes:
    return json.dumps(WHOLE[wire], indent=indent).encode()


def head(first: str, *lines: str) -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode()


def answered(body: bytes, kind: str = STREAM, *lines: str, status: str = "200 OK") -> bytes:
    named = [f"content-type: {kind}"] if kind else []
    return head(f"HTTP/1.1 {status}", *named, f"content-length: {len(body)}", *lines) + body


def chunked(body: bytes) -> bytes:
    before = head("HTTP/1.1 200 OK", f"content-type: {STREAM}", "transfer-encoding: chunked")
    return before + b"%x\r\n%b\r\n0\r\nx-checksum: 1\r\n\r\n" % (len(body), body)


@asynccontextmanager
async def line_to_bytes(wire: Wire, data: bytes) -> AsyncGenerator[Line]:
    """A line to a server that answers every request with these bytes and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next(line for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(data)
        writer.close()

    async with stream_server(answer) as port:
        base_url = f"http://127.0.0.1:{port}/v1"
        async with line_to(Target(name="main", wire=wire, base_url=base_url, model="m")) as line:
            yield line


GOOD: dict[str, Made] = {
    "a stream called JSON": lambda wire: answered(sse(wire), "application/json"),
    "a stream called a page": lambda wire: answered(sse(wire), "text/html"),
    "a stream without a type": lambda wire: answered(sse(wire), ""),
    "a stream that was created": lambda wire: answered(sse(wire), status="201 Created"),
    "a stream of bare fields, CR and LF": lambda wire: answered(sse(wire, "data:", "\r\n")),
    "a stream behind a byte order mark": lambda wire: answered(BOM + sse(wire)),
    "a stream behind blank lines and comments": lambda wire: answered(b"\n\n: busy\n\n" + sse(wire)),
    "a stream in gzip": lambda wire: answered(gzip.compress(sse(wire)), STREAM, "content-encoding: gzip"),
    "a stream in deflate": lambda wire: answered(
        zlib.compress(sse(wire)), STREAM, "content-encoding: deflate"
    ),
    "a stream in chunks with trailers": lambda wire: chunked(sse(wire)),
    "a stream of HTTP/1.0": lambda wire: head("HTTP/1.0 200 OK", f"content-type: {STREAM}") + sse(wire),
    "a stream after a 100": lambda wire: head("HTTP/1.1 100 Continue") + answered(sse(wire)),
    "a stream with a long header": lambda wire: answered(sse(wire), STREAM, f"x-policy: {'x' * 30_000}"),
    "JSON": lambda wire: answered(whole(wire), "application/json"),
    "JSON called a stream": lambda wire: answered(whole(wire)),
    "JSON called text": lambda wire: answered(whole(wire, indent=1), "text/plain; charset=utf-8"),
    "JSON without a type": lambda wire: answered(whole(wire), ""),
    "JSON behind a byte order mark": lambda wire: answered(BOM + whole(wire), "application/json"),
    "JSON behind blanks": lambda wire: answered(b"\n\n   " + whole(wire), "application/json"),
}


@for_each_row("form", GOOD)
async def test_an_answer_is_known_by_what_it_is_and_not_by_its_name(form: str) -> None:
    """P4."""
    for wire in WIRES:
        async with line_to_bytes(wire, GOOD[form](wire)) as line:
            answer = await line.ask()
            assert isinstance(answer, Answer), (wire, answer)
            assert (line.told.text, line.told.kinds) == ("hello", [])


BAD: dict[str, tuple[Made, str, str]] = {
    "a page called a stream": (
        lambda _: answered(b"<!doctype html>\n<html><title>Please log in</title></html>"),
        "malformed",
        "main answered with a web page instead of an API response: Please log in; check the wire",
    ),
    "a page without a type": (
        lambda _: answered(b"\n<html><title>Please log in</title></html>", ""),
        "malformed",
        "a web page instead of an API response: Please log in;",
    ),
    "an error called a stream": (
        lambda _: answered(BUSY),
        "overloaded",
        "reported an error: Come back later;",
    ),
    "an error in words": (
        lambda _: answered(b"event: error\ndata: upstream timed out\n\n"),
        "unknown",
        "main reported an error: upstream timed out;",
    ),
    "words": (
        lambda _: answered(b"no healthy upstream", "text/plain"),
        "malformed",
        "(no event stream: no healthy upstream); check the wire",
    ),
    "JSON that is no answer": (
        lambda _: answered(b"{}", "application/json"),
        "malformed",
        "(an answer without",
    ),
    "what is not gzip": (
        lambda wire: answered(sse(wire), STREAM, "content-encoding: gzip"),
        "malformed",
        "content-encoding: gzip); check",
    ),
    "nothing": (lambda _: answered(b""), "dropped", "closed the connection before sending a response;"),
    "a way elsewhere": (
        lambda _: answered(b"", "", "location: https://new.example/v1", status="308 Permanent Redirect"),
        "bad_request",
        "main answered 308: it has moved to https://new.example/v1; check base_url",
    ),
    "no HTTP": (lambda _: b"SSH-2.0-OpenSSH_9.2\r\n", "malformed", "SSH-2.0-OpenSSH_9.2"),
}


@for_each_row("form", BAD)
async def test_what_is_no_answer_says_what_it_is(form: str) -> None:
    """P4, P9."""
    made, kind, words = BAD[form]
    for wire in WIRES:
        async with line_to_bytes(wire, made(wire)) as line:
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            assert set(line.told.kinds) == {kind}, wire
            assert words in ended.failure.text
            assert line.told.text == ""


@on_each_wire
async def test_a_break_after_the_request_was_sent_is_not_said_to_be_in_the_middle_of_it(wire: Wire) -> None:
    """P9: an answer, or none, comes sooner than the next look at what is unsent."""
    async with line_of(wire, [Drop()], [Say("hello")]) as (line, _):
        assert isinstance(await line.ask(), Answer)
        (failure,) = line.told.failures
        assert failure.text.partition(";")[0].endswith("reset the connection before sending a response")


@on_each_wire
async def test_the_trace_names_each_target_once_and_the_error_says_what_to_do_once(wire: Wire) -> None:
    """P9."""
    async with line_of(wire, [Drop()], [Drop()], [Drop()]) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        place = f"127.0.0.1:{server.port}"
        broke = f"{place} reset the connection before sending a response"
        assert ended.trace == (
            f"attempt 1 (main): {broke}; retried after 0.5 s",
            f"attempt 2 (main): {broke}; retried after 1.0 s",
            f"attempt 3 (main): {broke}; gave up: main dropped the connection",
        )
        advice = "try again in a few minutes, or add a fallback target"
        assert ended.failure.text == f"main: {broke}; {advice} (gave up after 3 tries in 1.5 s)"
