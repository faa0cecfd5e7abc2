"""The stdio transport: one JSON message per line, over a server's standard input and output.

The SDK has such a transport too. Ours limits the length of a line, starts no process on the loop, and has no
tasks of its own.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import IO, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCNotification
from mcp.types.jsonrpc import jsonrpc_message_adapter

from holdfast.features.mcp_client.flow import DROPPED, MESSAGE_BYTES_MAX, Scales, TooComplex
from holdfast.features.mcp_client.process import ServerProcess
from holdfast.features.mcp_client.tool_specs import plain

JUNK_LINES_MAX = 1000
SKIPPED_BYTES_MAX = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_END_BYTES = 200  # of a dropped message: its id is near one of its ends
_ANSWER_ID = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"result"')
# The servers of the SDK in TypeScript write {"result": …, "jsonrpc": "2.0", "id": 1}.
_RESULT = re.compile(rb'\s*\{\s*"result"\s*:')
_LAST_ID = re.compile(rb'\}\s*,\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')


class WireBroken(Exception):
    """The server's output is not MCP; the text says what it is."""


class LineReader:
    """Messages from a server's standard output, at most MESSAGE_BYTES_MAX each.

    A longer response becomes an error for its caller. Lines that are not messages are
    skipped (many servers print a greeting), until there are too many.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._buffer = bytearray()
        self._searched = 0
        self._scales = Scales()
        self.junk_lines = 0
        self.junk = ""
        self.broken = ""

    async def receive(self) -> SessionMessage | Exception:
        """The next message; raises EndOfStream when there are no more, or when they make no sense."""
        try:
            while True:
                line = await self._line()
                message = line if isinstance(line, SessionMessage) else await self._weighed(line)
                if message is not None:
                    return message
        except WireBroken as broken:
            self.broken = str(broken)
            raise anyio.EndOfStream from broken

    async def aclose(self) -> None:
        """Nothing to close: the opener closes the pipe."""

    async def _line(self) -> bytes | SessionMessage:
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if len(self._buffer) > MESSAGE_BYTES_MAX:
                return await self._skipped()
            self._buffer += await self._chunk()

    async def _skipped(self) -> SessionMessage:
        """Skip to the end of a line that is too long, and respond in its place."""
        why = f"it sent a message of more than {MESSAGE_BYTES_MAX:,} bytes"
        head, tail = bytes(self._buffer[:_END_BYTES]), b""
        if not _ANSWER_ID.match(head) and not _RESULT.match(head):
            raise WireBroken(why)
        skipped_bytes = 0
        while (end := self._buffer.find(b"\n")) < 0:
            skipped_bytes += len(self._buffer)
            if skipped_bytes > SKIPPED_BYTES_MAX:
                raise WireBroken(f"it sent a message of more than {SKIPPED_BYTES_MAX:,} bytes")
            tail = (tail + self._buffer[-_END_BYTES:])[-_END_BYTES:]
            self._buffer.clear()
            self._buffer += await self._chunk()
        tail += self._buffer[max(0, end - _END_BYTES) : end]
        del self._buffer[: end + 1]
        self._searched = 0
        return _instead(head, why, tail=tail)

    async def _chunk(self) -> bytes:
        chunk = await self._reader.read(_CHUNK_BYTES)
        if not chunk:
            raise anyio.EndOfStream
        await asyncio.sleep(0)  # a reader whose buffer is never empty would keep the loop to itself
        return chunk

    async def _weighed(self, line: bytes) -> SessionMessage | None:
        try:
            await self._scales.weigh(line)
        except TooComplex as error:
            return _instead(line[:_END_BYTES], str(error), tail=line[-_END_BYTES:])
        return self._parsed(line)

    def _parsed(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self.junk = self.junk or plain(line[:400].decode("utf-8", "replace"), chars_max=100)
            self.junk_lines += 1
            if self.junk_lines > JUNK_LINES_MAX:
                text = f"it prints output that isn't MCP, such as {self.junk!r}"
                raise WireBroken(text) from None
            return None


def _instead(head: bytes, why: str, *, tail: bytes) -> SessionMessage:
    """An error for the caller that waits for this message; raises WireBroken if it cannot be identified."""
    asked = _ANSWER_ID.match(head) or (_LAST_ID.search(tail) if _RESULT.match(head) else None)
    if asked is None:
        raise WireBroken(why)
    error = ErrorData(code=DROPPED, message=f"its response was dropped: {why}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(asked[1]), error=error))


class LineWriter:
    """Messages to a server's standard input."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write it and wait until there is room for more; a cancelled send is still written."""
        if self._closed or self._writer.is_closing():
            raise anyio.ClosedResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._writer.write(text.encode("utf-8", "replace") + b"\n")
        if isinstance(item.message, JSONRPCNotification):
            # A few bytes, at most a handful per call. The SDK shields its cancellation of a call, so
            # waiting here would delay stopping or restarting a server that reads nothing.
            return
        try:
            await self._writer.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Take no more."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def stdio_wire(process: ServerProcess) -> AsyncGenerator[tuple[LineReader, LineWriter]]:
    """Start the process and talk to it; on exit the process is dead."""
    process.start()
    output: asyncio.BaseTransport | None = None
    writer: asyncio.StreamWriter | None = None
    try:
        popen = await asyncio.shield(process.started)
        if popen is None:
            raise WireBroken(str(process.ended.result()))
        output, reader = await _reading(cast("IO[bytes]", popen.stdout))
        writer = await _writing(cast("IO[bytes]", popen.stdin))
        # A child that it left behind may keep its output open: the end of the process is the end of the wire.
        abort = cast("asyncio.ReadTransport", output).close
        process.ended.add_done_callback(lambda _: abort())
        yield LineReader(reader), LineWriter(writer)
    finally:
        if writer is not None:
            writer.close()  # closing its input tells a server to exit
        try:
            await process.end()
        finally:
            await _let_go(process, output=output, writer=writer)


class LentPipe:
    """A pipe for the loop's own use.

    uvloop closes the descriptor and then the file object that it came from. In between, another thread may
    have been given the same number, and would lose a file that it has just opened.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._descriptor = os.dup(pipe.fileno())
        self._is_closed_for_us = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        pipe.close()

    def fileno(self) -> int:
        """The number that the loop works with."""
        return self._descriptor

    def close(self) -> None:
        """Called by the loop at the end; asyncio's own class leaves the closing to it."""
        if not self._is_closed_for_us:
            self._is_closed_for_us = True
            os.close(self._descriptor)


async def _reading(pipe: IO[bytes]) -> tuple[asyncio.BaseTransport, asyncio.StreamReader]:
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, LentPipe(pipe))
    return transport, reader


async def _writing(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    # The protocol of a reader that reads nothing: it is the public one that knows when a pipe is full.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, LentPipe(pipe))
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _let_go(
    process: ServerProcess, *, output: asyncio.BaseTransport | None, writer: asyncio.StreamWriter | None
) -> None:
    popen = process.started.result() if process.started.done() else None
    if output is not None:
        output.close()
    elif popen is not None and popen.stdout is not None:
        popen.stdout.close()
    if writer is not None:
        # Closing waits for unwritten data, which has no reader anymore.
        if writer.transport.get_write_buffer_size():
            writer.transport.abort()
    elif popen is not None and popen.stdin is not None:
        popen.stdin.close()
    await asyncio.sleep(0)  # the loop closes what it let go of in its next round
