"""A model server that is quick: three wires, frames encoded in advance, one small protocol on uvloop.

The path says the wire and the header `x-bench` what to do: `burst N` sends N tokens as fast as the socket
takes them, `paced N MS` one every so many milliseconds (each answer at a moment of its own within them, so
that all clients meet the same mixture, however fast they ask), `stamp` one token that holds the time at which
it was sent. GET /closed tells when the last connection was closed by its client, and GET
/received how many bytes the last request's body had.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import uvloop

Frames: TypeAlias = tuple[list[bytes], bytes, list[bytes]]
Wire: TypeAlias = Callable[[bytes], Frames]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
BLOCK_TOKENS = 100
GOLDEN = 0.618034  # its multiples spread evenly over a turn, however many there are

CHAT = (
    b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[%b]%b}'
)
USED = b'"usage":{"input_tokens":9,"output_tokens":9,"total_tokens":18}'
ITEM = b'{"id":"msg_1","type":"message","role":"assistant","status":"%b","content":[%b]}'
RESPONSE = (
    b'{"id":"resp_1","object":"response","created_at":1700000000,"model":"m","status":"%b","output":[],%b}'
)
OPTIONS = b'"parallel_tool_calls":true,"tool_choice":"auto","tools":[]'


def data(text: bytes) -> bytes:
    return b"data: " + text + b"\n\n"


def named(name: bytes, fields: bytes) -> bytes:
    return b"event: %b\n" % name + data(b'{"type":"%b",%b}' % (name, fields))


def choice(delta: bytes, finish: bytes = b"null") -> bytes:
    return b'{"index":0,"delta":%b,"finish_reason":%b}' % (delta, finish)


def chat(token: bytes) -> Frames:
    opening = [data(CHAT % (choice(b'{"role":"assistant","content":""}'), b""))]
    usage = b',"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}'
    ending = [data(CHAT % (choice(b"{}", b'"stop"'), b"")), data(CHAT % (b"", usage)), data(b"[DONE]")]
    return opening, data(CHAT % (choice(b'{"content":"%b"}' % token), b"")), ending


def responses(token: bytes) -> Frames:
    place = b'"sequence_number":1,"output_index":0'
    text = b'%b,"item_id":"msg_1","content_index":0,"logprobs":[]' % place
    opening = [
        named(b"response.created", b'"sequence_number":0,"response":' + RESPONSE % (b"in_progress", OPTIONS)),
        named(b"response.output_item.added", b'%b,"item":%b' % (place, ITEM % (b"in_progress", b""))),
        named(
            b"response.content_part.added",
            b'%b,"item_id":"msg_1","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}'
            % place,
        ),
    ]
    ending = [
        named(b"response.output_item.done", b'%b,"item":%b' % (place, ITEM % (b"completed", b""))),
        named(
            b"response.completed",
            b'"sequence_number":9,"response":' + RESPONSE % (b"completed", OPTIONS + b"," + USED),
        ),
    ]
    return opening, named(b"response.output_text.delta", b'%b,"delta":"%b"' % (text, token)), ending


def anthropic(token: bytes) -> Frames:
    message = (
        b'{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,'
        b'"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}'
    )
    opening = [
        named(b"message_start", b'"message":' + message),
        named(b"content_block_start", b'"index":0,"content_block":{"type":"text","text":""}'),
    ]
    ending = [
        named(b"content_block_stop", b'"index":0'),
        named(
            b"message_delta",
            b'"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}',
        ),
        named(b"message_stop", b'"x":0'),
    ]
    delta = b'"index":0,"delta":{"type":"text_delta","text":"%b"}' % token
    return opening, named(b"content_block_delta", delta), ending


WIRES: dict[bytes, Wire] = {b"/chat/completions": chat, b"/responses": responses, b"/messages": anthropic}


def chunk(frame: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(frame), frame)


class Connection(asyncio.Protocol):
    """One client."""

    closed_s = 0.0
    received_bytes = 0

    def __init__(self, paced: Iterator[int]) -> None:
        self._paced = paced
        self._buffer = b""
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note when, if the client left before its answer was whole."""
        del exc
        if self._busy:
            Connection.closed_s = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        self._buffer += data
        head, blank, body = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        if len(body) < int(headers.get(b"content-length", b"0")):
            return
        self._buffer = b""
        path = lines[0].split(b" ")[1]
        if path in {b"/closed", b"/received"}:
            text = b"%.6f" % Connection.closed_s if path == b"/closed" else b"%d" % Connection.received_bytes
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
            return
        wire = next(wire for end, wire in WIRES.items() if path.endswith(end))
        self._busy = True
        Connection.received_bytes = len(body)
        what, *numbers = headers[b"x-bench"].split(b" ")
        if what == b"stamp":
            self._stamp(wire)
        elif what == b"burst":
            self._task = asyncio.get_running_loop().create_task(self._burst(wire, int(numbers[0])))
        else:
            self._pace(wire, int(numbers[0]), pace_s=float(numbers[1]) / 1000)

    def _stamp(self, wire: Wire) -> None:
        token = b"%.6f" % time.monotonic()
        opening, frame, ending = wire(token)
        self._finish(HEAD + b"".join(map(chunk, [*opening, frame, *ending])))

    async def _burst(self, wire: Wire, tokens: int) -> None:
        opening, frame, ending = wire(b" token")
        self._transport.write(HEAD + b"".join(map(chunk, opening)))
        block = chunk(frame) * BLOCK_TOKENS
        for _ in range(tokens // BLOCK_TOKENS):
            self._transport.write(block)
            await self._can_write.wait()
        self._finish(chunk(frame) * (tokens % BLOCK_TOKENS) + b"".join(map(chunk, ending)))

    def _pace(self, wire: Wire, tokens: int, *, pace_s: float) -> None:
        opening, frame, ending = wire(b" token")
        self._transport.write(HEAD + b"".join(map(chunk, opening)))
        loop, piece = asyncio.get_running_loop(), chunk(frame)
        moment_s = pace_s * (next(self._paced) * GOLDEN % 1)
        next_s = loop.time() + pace_s
        next_s += (moment_s - next_s) % pace_s

        def send(left: int, at_s: float) -> None:
            if not left:
                self._finish(b"".join(map(chunk, ending)))
                return
            self._transport.write(piece)
            self._timer = loop.call_at(at_s + pace_s, send, left - 1, at_s + pace_s)

        self._timer = loop.call_at(next_s, send, tokens, next_s)

    def _finish(self, last: bytes) -> None:
        self._transport.write(last + END)
        self._busy = False


async def serve() -> None:
    paced = itertools.count()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(paced), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(serve())
