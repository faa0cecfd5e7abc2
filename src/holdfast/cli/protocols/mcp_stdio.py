"""`holdfast mcp`: the agent as a Model Context Protocol server on standard input and output."""

import asyncio
import sys
from collections.abc import Mapping

from holdfast.cli.attach import OK, Attached, with_server
from holdfast.client.address import ClientPatience

PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)
LINE_BYTES_MAX = 32 * 1024 * 1024


def serve_mcp(flags: Mapping[str, object]) -> int:
    """Talk to the client on standard input and output until it leaves; the exit code."""

    async def work(attached: Attached) -> int:
        lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, sys.stdout.buffer
        )
        out = asyncio.StreamWriter(transport, protocol, None, loop)

        async def write(message: bytes) -> None:
            out.write(message + b"\n")
            await out.drain()

        pipe = attached.client.mcp_pipe(write)
        try:
            while line := await lines.readline():
                if line.strip():
                    await pipe.take(line)
        finally:
            await pipe.drain()
            out.close()
        return OK

    return with_server(flags, work, works="all", patience=PATIENCE)
