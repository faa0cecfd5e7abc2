"""What an editor may write: lines that are no messages are answered, and the next one counts."""

import asyncio
import io
from typing import Any

import msgspec
import pytest

from holdfast.cli.stdio_lines import LineTooLong, StdioLines
from holdfast.features.acp.transport import EditorTransport

GOOD = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'


class Pipe:
    """An editor that has written all it has to say, and what it is answered."""

    def __init__(self, *lines: bytes, bytes_max: int = 1_000_000) -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"\n".join([*lines, b""]))
        reader.feed_eof()
        self._file = io.BytesIO()
        self.lines = StdioLines(reader, self, bytes_max=bytes_max)  # type: ignore[arg-type]
        self.transport = EditorTransport(self.lines.read, self.lines.write, requests_max=2)

    def write(self, data: bytes) -> None:
        self._file.write(data)

    async def drain(self) -> None:
        """It reads at once."""

    @property
    def answers(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self._file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"3", -32600),
        (b"null", -32600),
        (b"[" + GOOD + b"]", -32600),
        (b"{}", -32600),
        (b'{"id":1}', -32600),
        (b'{"id":[1],"result":1}', -32600),
        (b'{"id":{},"method":"initialize"}', -32600),
        (b'{"id":1,"method":2}', -32600),
        (b'{"id":1,"method":"initialize","params":[]}', -32600),
    ],
)
async def test_a_line_that_is_no_message_is_answered_with_an_error(line: bytes, code: int) -> None:
    pipe = Pipe(line, b"", GOOD)
    assert await pipe.transport.receive() == msgspec.json.decode(GOOD)
    assert [one["error"]["code"] for one in pipe.answers] == [code]
    assert await pipe.transport.receive() is None


async def test_an_answer_that_makes_no_sense_reaches_whoever_waits_as_an_error() -> None:
    both = b'{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"once"}},"error":null}'
    pipe = Pipe(b'{"id":0,"error":"no"}', b'{"id":"x","result":{}}', both)
    broken, strange = await pipe.transport.receive(), await pipe.transport.receive()
    ambiguous = await pipe.transport.receive()
    assert ambiguous is not None
    assert "result" not in ambiguous, "which of the two counts can't be told, so nobody has agreed"
    assert isinstance(ambiguous["error"], dict)
    assert broken is not None
    assert isinstance(broken["error"], dict)
    assert strange is not None
    assert strange["id"] == -1  # nobody waits for it


async def test_a_line_that_is_too_long_is_skipped() -> None:
    pipe = Pipe(b"x" * 300_000, GOOD, bytes_max=200_000)
    assert await pipe.transport.receive() == msgspec.json.decode(GOOD)
    assert pipe.answers[0]["error"]["code"] == -32700
    longer = Pipe(b"x" * 300_000, b"y", bytes_max=200_000)
    with pytest.raises(LineTooLong):
        await longer.lines.read()
    assert await longer.lines.read() == b"y\n"


async def test_only_so_many_requests_are_open_at_once() -> None:
    pipe = Pipe(GOOD, GOOD, GOOD, GOOD)
    assert await pipe.transport.receive()
    assert await pipe.transport.receive()
    await pipe.transport.send({"jsonrpc": "2.0", "id": 1, "result": None})
    assert await pipe.transport.receive()
    assert await pipe.transport.receive() is None
    assert [("error" in one) for one in pipe.answers] == [False, True]


async def test_a_permission_that_was_given_elsewhere_is_no_longer_asked_for() -> None:
    pipe = Pipe(b'{"id":4,"result":{}}')
    for request_id, call in ((4, "one"), (5, "two")):
        params = {"toolCall": {"toolCallId": call}}
        await pipe.transport.send(
            {"id": request_id, "method": "session/request_permission", "params": params}
        )
    assert await pipe.transport.receive()  # the first is answered
    for call in ("one", "two", "two", "three"):
        await pipe.transport.withdraw(call)
    assert [one["params"] for one in pipe.answers[2:]] == [{"requestId": 5}]
