"""Secure connections: a certificate that nobody vouches for, and a handshake that never ends."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_writer import StreamWriter

from holdfast.decisions.deadlines import RequestFacts, effective
from holdfast.interfaces.model import NoAnswer
from holdfast.models.body import UploadPayload
from holdfast.models.watchdog import Watchdog
from holdfast.targets import Patience, RetryLimits, Target
from stream_server import stream_server

from .calling import HANGS_S, line_to, nothing_left
from .certificates import own_certificate

USUAL = Patience()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None) -> AsyncGenerator[tuple[int, asyncio.Queue[str]]]:
    """A server that says nothing, and notes who came through."""
    came: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.put_nowait("connection")
        await reader.read()
        writer.close()

    async with stream_server(serve, ssl=context) as port:
        yield port, came


def secure(port: int, patience: Patience = USUAL, retry: RetryLimits = RetryLimits()) -> Target:  # noqa: B008
    return Target(
        name="main",
        wire="chat",
        base_url=f"https://127.0.0.1:{port}/v1",
        model="m",
        patience=patience,
        retry=retry,
    )


async def test_a_certificate_that_nobody_vouches_for_is_never_retried(tmp_path: Path) -> None:
    """P9, P11: neither the key nor the request reaches such a server."""
    context = own_certificate(tmp_path)
    async with listening(context) as (port, came), line_to(secure(port)) as line:
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "tls_untrusted"
        why = "self-signed certificate" if "self-signed" in ended.failure.text else "self signed certificate"
        assert f"the certificate of 127.0.0.1:{port} isn't trusted ({why}); check" in ended.failure.text
        assert line.told.kinds == ["tls_untrusted"]
        assert came.empty()


async def test_a_handshake_that_never_ends_is_cut() -> None:
    """P3: the connection is not made before it is a secure one."""
    async with (
        listening(None) as (port, came),
        line_to(secure(port, patience=Patience(connect_s=0.1), retry=RetryLimits(unreachable_s=0.1))) as line,
    ):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert line.told.close_reasons == ["connect_kill"] * 2
        async with asyncio.timeout(HANGS_S):  # a busy machine accepts only later what was given up already
            assert [await came.get() for _ in range(3)] == ["connection"] * 3
    await nothing_left()


async def test_a_secure_connection_that_was_closed_twice_has_nothing_unsent(tmp_path: Path) -> None:
    """P3: asyncio's transport then no longer knows its socket, and that is no bug of the call."""
    trusting = ssl.create_default_context()
    context = own_certificate(tmp_path)
    trusting.load_verify_locations(tmp_path / "both.pem")
    loop = asyncio.get_running_loop()
    async with listening(context) as (port, _):
        transport, protocol = await loop.create_connection(
            lambda: BaseProtocol(loop), "127.0.0.1", port, ssl=trusting, server_hostname="localhost"
        )
        asked = RequestFacts(local=True, input_tokens=1)
        upload = UploadPayload(b"{}", Watchdog(effective(USUAL, asked)))
        await upload.write(StreamWriter(protocol, loop))
        transport.close()
        transport.close()
        upload.end()
        upload.abort()  # raises nothing
        assert transport.is_closing()
