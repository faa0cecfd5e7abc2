"""The bad model server: three wires on loopback, driven by scripts."""

import asyncio
import socket
import time
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct, field

from holdfast.chaos.answer import ReportedUsage, ScriptedAnswer, WireName
from holdfast.chaos.connection import ChaosConnection, ChaosExchange, RequestHead
from holdfast.chaos.faults import UploadStep
from holdfast.chaos.frames import SseStyle
from holdfast.chaos.record import RecordLimits, SeenRequest, SeenTraffic
from holdfast.chaos.reply import Script, ScriptedReply
from holdfast.chaos.source import AfterLast, Attempts, Choose, Chosen, Source
from holdfast.chaos.statuses import Status
from holdfast.chaos.wires import wire_for, wire_of_path


class ChaosOptions(Struct, frozen=True):
    """How the server listens, formats and records."""

    host: str = "127.0.0.1"
    port: int = 0
    usage: ReportedUsage = field(default_factory=ReportedUsage)
    sse: SseStyle = field(default_factory=SseStyle)
    limits: RecordLimits = field(default_factory=RecordLimits)
    models: tuple[str, ...] = ("chaos",)
    receive_buffer_bytes: int | None = None


class ChaosServer:
    """Answers each model request with the next script; an async context manager.

    A script that fails by itself (a bug in a step or in a choosing function) resets its connection, and
    leaving the context raises it. Nothing outlives the context: no task, no socket, no timer.
    """

    def __init__(
        self,
        *scripts: Script,
        choose: Choose | None = None,
        source: Source | None = None,
        after_last: AfterLast = "fail",
        options: ChaosOptions | None = None,
    ) -> None:
        self.options = options or ChaosOptions()
        self.record = SeenTraffic(self.options.limits)
        self.errors: list[Exception] = []
        by_request = Chosen(choose) if choose is not None else None
        self._source: Source = source or by_request or Attempts(scripts, after_last)
        self._connections: set[ChaosConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_closing = False

    @property
    def seen(self) -> SeenTraffic:
        """The server's record, and conditions to wait for."""
        return self.record

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None, "the server listens only inside its context"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The address without a path, as Anthropic's client wants it."""
        return f"http://{self.options.host}:{self.port}"

    @property
    def base_url(self) -> str:
        """The address with /v1, as OpenAI's clients want it."""
        return f"{self.url}/v1"

    async def __aenter__(self) -> Self:
        self._is_closing = False
        sock = _listening_socket(self.options)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ChaosConnection(self), sock=sock, backlog=1024)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
        if self.errors and error is None:
            raise ExceptionGroup("scripts of the bad model server failed", self.errors)
        if error is not None:
            for failed in self.errors:
                error.add_note(f"a script of the bad model server failed: {failed!r}")

    async def aclose(self) -> None:
        """Stop listening, close every connection, and wait until nothing is left."""
        server = self._server
        if server is None:
            return
        self._is_closing = True
        server.close()
        for connection in list(self._connections):
            connection.abort()
        await self.record.until(lambda: not self._connections)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    def connection_began(self, connection: ChaosConnection) -> None:
        """Note a new connection; one that arrives after the server has stopped is closed."""
        self._connections.add(connection)
        if self._is_closing:
            connection.abort()

    def request_arrived(self, connection: ChaosConnection, head: RequestHead) -> ChaosExchange:
        """Decide what to do with a request whose headers have been read."""
        wire = wire_of_path(head.target) if head.method == "POST" else None
        seen = SeenRequest(
            number=self.record.next_number() if wire else 0,
            method=head.method,
            path=head.target,
            headers=head.headers,
            wire=wire,
            connection=connection.seen,
            headers_s=time.monotonic(),
        )
        if wire is None:
            self.record.add_other(seen)
            return ChaosExchange(seen, lambda: self._answer_other(connection, seen), reads_by_script=False)
        self.record.add_request(seen)
        script = self._source.at_headers(seen)
        reads = script is not None and len(script) > 0 and isinstance(script[0], UploadStep)
        return ChaosExchange(seen, lambda: self._answer(connection, seen, script), reads_by_script=reads)

    def connection_ended(self, connection: ChaosConnection, task: "asyncio.Task[None] | None") -> None:
        """Forget a connection; its last task, if any, has been cancelled."""
        self._connections.discard(connection)
        if task is not None and not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: ChaosConnection, seen: SeenRequest, script: Script | None) -> None:
        try:
            if script is None:
                script = self._source.at_body(seen)
            if seen.body_s is not None and seen.body is None:
                script = [Status(400, message="the body is not a JSON object")]
            await self._stage(connection, seen, seen.wire or "responses").perform(script)
        except Exception as error:  # noqa: BLE001 - a script's own bug must reach the test: leaving the context raises it
            self.errors.append(error)
            connection.reset()

    async def _answer_other(self, connection: ChaosConnection, seen: SeenRequest) -> None:
        path = seen.path.partition("?")[0].rstrip("/")
        if seen.method == "GET" and path.endswith("/models"):
            script = [Status(200, body=_model_list(self.options.models))]
        else:
            message = (
                f"{seen.method} {path} is not here; POST /v1/responses, /v1/chat/completions or /v1/messages"
            )
            script = [Status(404, message=message)]
        await self._stage(connection, seen, "responses").perform(script)

    def _stage(self, connection: ChaosConnection, seen: SeenRequest, wire: WireName) -> ScriptedReply:
        answer = ScriptedAnswer(
            number=seen.number,
            model=seen.model or "chaos",
            created_s=int(time.time()),
            usage=self.options.usage,
            include_usage=seen.include_usage,
        )
        return ScriptedReply(seen, wire_for(wire, answer), connection, self.options.sse)


def _listening_socket(options: ChaosOptions) -> socket.socket:
    # With the protocol: asyncio switches Nagle's algorithm off only if it knows that this is TCP.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if options.receive_buffer_bytes is not None:
        # Accepted sockets inherit it; setting it later wouldn't shrink the window that was offered.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
    try:
        sock.bind((options.host, options.port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _model_list(models: tuple[str, ...]) -> str:
    # One object that both the OpenAI and the Anthropic client can read.
    entries = [
        {
            "id": model,
            "object": "model",
            "type": "model",
            "created": 1_700_000_000,
            "created_at": "2025-01-01T00:00:00Z",
            "display_name": model,
            "lifecycle": "active",
            "owned_by": "holdfast-chaos",
        }
        for model in models
    ]
    page = {"object": "list", "data": entries, "has_more": False}
    ends = {"first_id": models[0] if models else None, "last_id": models[-1] if models else None}
    return msgspec.json.encode({**page, **ends}).decode()
