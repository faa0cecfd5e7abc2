"""`holdfast mcp`: the agent as a Model Context Protocol server on standard input and output."""

from collections.abc import Mapping

import msgspec

from holdfast.cli.attach import OK, Attached, with_server
from holdfast.cli.stdio_lines import LineTooLong, StdioLines
from holdfast.client.address import ClientPatience
from holdfast.features.mcp_server.pipe import McpPipe

PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)
PARSE_ERROR = -32700


def serve_mcp(flags: Mapping[str, object]) -> int:
    """Talk to the client on standard input and output until it leaves; the exit code."""

    async def work(attached: Attached) -> int:
        lines = await StdioLines.open()
        pipe = McpPipe(attached.client.exchange, lines.write)
        try:
            while line := await _line(lines):
                await pipe.take(line)
        finally:
            await pipe.drain()
            lines.close()
        return OK

    return with_server(flags, work, works="all", patience=PATIENCE)


async def _line(lines: StdioLines) -> bytes:
    """The next line; one that is too long is answered with an error."""
    while True:
        try:
            return await lines.read()
        except LineTooLong as error:
            problem = {"code": PARSE_ERROR, "message": str(error)}
            await lines.write(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem}))
