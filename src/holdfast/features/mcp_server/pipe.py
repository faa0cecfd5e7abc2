"""`holdfast mcp`: a Model Context Protocol client on standard input and output, passed on to a server's /mcp.

Each request is sent under an idempotency key, and again after a lost connection with the cursor that was
reached, so a restart of the server is a pause.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from secrets import token_hex
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from holdfast.cli.attach import OK, Attached, with_server
from holdfast.cli.stdio_lines import LineTooLong, StdioLines
from holdfast.client.address import ClientPatience
from holdfast.client.errors import ClientError, Refused
from holdfast.client.exchange import BROKEN, LATER, ClientRequest, RetryingHttp, error_text

Json: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[[bytes], Awaitable[None]]

PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)
PATH = "/mcp"
BOTH, EVENTS = "application/json, text/event-stream", "text/event-stream"
REQUESTS_MAX = 256
FRAME_BYTES_MAX = 64 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
_META = "io.modelcontextprotocol/"
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


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
            await lines.write(msgspec.json.encode(_error(None, PARSE_ERROR, str(error))))


class _Request(Struct):
    """A request under way: what it is sent under, and how far its stream was read."""

    task: asyncio.Task[None] | None = None
    once: str = field(default_factory=lambda: f"pipe-{token_hex(16)}")
    cursor: str = ""
    is_modern: bool = False


class McpPipe:
    """Passes messages on in both directions; `write` gets each line for the client."""

    def __init__(self, exchange: RetryingHttp, write: Write) -> None:
        self._exchange = exchange
        self._write = write
        self._headers: dict[str, str] = {}  # what `initialize` brought
        self._requests: dict[str, _Request] = {}
        self._others: set[asyncio.Task[None]] = set()

    async def take(self, line: bytes) -> None:
        """Take a line of the client; its answer is written when it comes."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await self._say(_error(None, PARSE_ERROR, f"Invalid JSON: {error}"))
            return
        if not isinstance(message, dict):
            await self._say(
                _error(None, INVALID_REQUEST, "Send one JSON-RPC message in a line, and no batch")
            )
            return
        given = cast("Json", message)
        if given.get("method") == "initialize":
            await self._passed(given, _Request())
        elif "id" in given and "method" in given:
            await self._begin(given)
        elif given.get("method") == "notifications/cancelled":
            self._cancel(given)
        else:
            self._spawn(self._passed(given, _Request()))

    async def drain(self) -> None:
        """The client is gone, so nobody waits for what is under way."""
        tasks = [*self._others, *(one.task for one in self._requests.values() if one.task)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _begin(self, message: Json) -> None:
        name = _name(message["id"])
        if len(self._requests) >= REQUESTS_MAX or name in self._requests:
            text = f"There are {REQUESTS_MAX} requests under way, or one with this id"
            await self._say(_error(message["id"], INVALID_REQUEST, text))
            return
        request = self._requests[name] = _Request(is_modern=_version_in(message) != "")
        request.task = self._spawn(self._passed(message, request))
        request.task.add_done_callback(lambda _: self._requests.pop(name, None))

    def _cancel(self, message: Json) -> None:
        """Cancel a request: the server stops its run, and nothing of it is heard any more."""
        params = message.get("params")
        wanted = cast("Json", params).get("requestId") if isinstance(params, dict) else None
        request = self._requests.pop(_name(wanted), None)
        if request is None or request.task is None:
            return
        request.task.cancel()
        self._spawn(self._passed(message, _Request(once=request.once)))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    async def _passed(self, message: Json, request: _Request) -> None:
        """Send the message until it is answered; a client is told of every failure."""
        now_s = asyncio.get_running_loop().time
        tries, lost_s = 0, 0.0
        while True:
            try:
                if await self._sent(message, request):
                    return
                why = "the stream ended"
            except Refused as error:
                if error.status not in LATER:
                    await self._fail(message, str(error))
                    return
                why = error.message
            except ClientError as error:
                await self._fail(message, str(error))
                return
            except BROKEN as error:
                why = error_text(error)
            lost_s = lost_s or now_s()
            if now_s() - lost_s > self._exchange.patience.follow_s:
                await self._fail(message, f"The server is gone: {why}")
                return
            await asyncio.sleep(self._exchange.pause_s(tries))
            tries += 1

    async def _sent(self, message: Json, request: _Request) -> bool:
        """One try; whether the answer is whole. Raises Refused, and one of BROKEN."""
        asked = ClientRequest(
            "POST",
            PATH,
            body=message,
            once=request.once,
            accept=BOTH,
            headers=self._headers | _modern_headers(message) | _cursor_header(request),
        )
        silence_s = self._exchange.patience.silence_s
        async with self._exchange.opened_any(asked, silence_s=silence_s) as answer:
            if answer.status == HTTPStatus.ACCEPTED:
                return True
            if answer.content_type == EVENTS:
                return await self._read(answer.content.iter_any(), message, request)
            body = await answer.read()
            if answer.status >= HTTPStatus.BAD_REQUEST and b'"jsonrpc"' not in body[:40]:
                raise self._exchange.refused(answer, body)
            if message.get("method") == "initialize":
                self._begun(answer.headers.get("Mcp-Session-Id", ""), body)
            if "id" in message:
                await self._write(body)
            return True

    async def _read(self, pieces: Any, message: Json, request: _Request) -> bool:
        rest = bytearray()
        async for piece in pieces:
            rest += piece
            if len(rest) > FRAME_BYTES_MAX:
                raise OSError(f"a frame of more than {FRAME_BYTES_MAX} bytes")
            end = rest.rfind(b"\n\n")
            if end < 0:
                continue
            blocks = bytes(rest[:end]).split(b"\n\n")
            del rest[: end + 2]
            for block in blocks:
                if await self._heard(block, request) == message.get("id", self):
                    return True
        return False

    async def _heard(self, block: bytes, request: _Request | None) -> object:
        """Write what a frame says; returns the id of the request that it answers, else None."""
        data = b""
        for line in block.split(b"\n"):
            name, _, value = line.partition(b": ")
            if name == b"id" and request is not None:
                request.cursor = value.decode("latin-1")
            elif name == b"data":
                data = value
        if not data:
            return None
        await self._write(data)
        said = msgspec.json.decode(data)
        is_answer = isinstance(said, dict) and ("result" in said or "error" in said)
        return cast("Json", said).get("id") if is_answer else None

    def _begun(self, session: str, body: bytes) -> None:
        """The client and the server agreed on a version, up to 2025; from now on, each request says so."""
        result: Any = msgspec.json.decode(body).get("result", {})
        self._headers = {"Mcp-Protocol-Version": str(result.get("protocolVersion", ""))}
        if session:
            self._headers["Mcp-Session-Id"] = session
            self._spawn(self._listen())

    async def _listen(self) -> None:
        """Hear what the server says between requests, for as long as the client is there."""
        tries = 0
        while True:
            asked = ClientRequest("GET", PATH, accept=EVENTS, headers=self._headers)
            silence_s = self._exchange.patience.silence_s
            with suppress(*BROKEN):
                async with self._exchange.opened(asked, silence_s=silence_s) as answer:
                    rest = bytearray()
                    async for piece in answer.content.iter_any():
                        tries, rest = 0, rest + piece
                        *blocks, rest = rest.split(b"\n\n")
                        for block in blocks:
                            await self._heard(bytes(block), None)
            await asyncio.sleep(self._exchange.pause_s(tries))
            tries += 1

    async def _fail(self, message: Json, why: str) -> None:
        if "id" in message and "method" in message:
            await self._say(_error(message["id"], INTERNAL_ERROR, why))

    async def _say(self, message: Json) -> None:
        await self._write(msgspec.json.encode(message))


def _error(rpc_id: object, code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": text}}


def _name(rpc_id: object) -> str:
    """An id as a key: 1 and "1" are two."""
    return msgspec.json.encode(rpc_id).decode()


def _meta_in(message: Json) -> Json:
    params = message.get("params")
    meta = cast("Json", params).get("_meta") if isinstance(params, dict) else None
    return cast("Json", meta) if isinstance(meta, dict) else {}


def _version_in(message: Json) -> str:
    """The version that the message itself names, since 2026; else empty."""
    version = _meta_in(message).get(f"{_META}protocolVersion", "")
    return version if isinstance(version, str) else ""


def _modern_headers(message: Json) -> dict[str, str]:
    """Return the parts of the message that a server compares with its headers."""
    version, method = _version_in(message), message.get("method")
    if not version or not isinstance(method, str):
        return {}
    headers = {"Mcp-Protocol-Version": version, "Mcp-Method": method}
    param = _NAMED.get(method)
    name = message["params"].get(param) if param else None
    return headers | ({"Mcp-Name": _header_value(name)} if isinstance(name, str) else {})


def _header_value(text: str) -> str:
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def _cursor_header(request: _Request) -> dict[str, str]:
    return {"Last-Event-ID": request.cursor} if request.cursor else {}
