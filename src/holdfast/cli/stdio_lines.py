"""Lines on standard input and output, for programs that start Holdfast and talk to it."""

import asyncio
import sys
from typing import Self

LINE_BYTES_MAX = 64 * 1024 * 1024


class LineTooLong(Exception):
    """A line of the other program was longer than the limit; it is skipped."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"A message can be up to {bytes_max // (1024 * 1024)} MiB.")


class StdioLines:
    """The lines that the other program writes, and a way to write to it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, bytes_max: int = LINE_BYTES_MAX
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._bytes_max = bytes_max
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls) -> Self:
        """Take over standard input and output; raises OSError if they are files."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        try:
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
            transport, protocol = await loop.connect_write_pipe(
                asyncio.streams.FlowControlMixin, sys.stdout.buffer
            )
        except ValueError:
            raise OSError(
                "standard input and output must be pipes: this command is started by another program"
            ) from None
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def read(self) -> bytes:
        """The next line that isn't blank, empty at the end; raises LineTooLong, and can be called again."""
        while True:
            line = await self._line()
            if not line or line.strip():
                return line

    async def _line(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                piece, is_whole = await self._reader.readuntil(), True
            except asyncio.LimitOverrunError as overrun:
                piece, is_whole = await self._reader.readexactly(overrun.consumed), False
            except asyncio.IncompleteReadError as end:
                piece, is_whole = end.partial, True
            size += len(piece)
            if size <= self._bytes_max:
                pieces.append(piece)
            else:
                pieces.clear()
            if is_whole and size > self._bytes_max:
                raise LineTooLong(self._bytes_max)
            if is_whole:
                return b"".join(pieces)

    async def write(self, line: bytes) -> None:
        """Write one line; waits while the other program doesn't read."""
        async with self._writing:
            self._writer.write(line + b"\n")
            await self._writer.drain()

    def close(self) -> None:
        """Write nothing more."""
        self._writer.close()
