"""Tracks whether a request was written, because only an unwritten one can safely be resent."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

_T = TypeVar("_T")
UNREADABLE: Final = "invalid response"
CONNECT_S = 15.0
# Timeout of an edit, which is safe to repeat.
EDIT_ANSWER_S = 10.0


class Unwritten(Struct, frozen=True):
    """The request never left this machine."""

    why: str


class Unanswered(Struct, frozen=True):
    """The request was written, but its outcome is unknown."""

    why: str


def request_mark() -> SimpleNamespace:
    """Return the `trace_request_ctx` of a request. `is_written` is whether any of it was sent."""
    return SimpleNamespace(is_written=False)


def tracing() -> aiohttp.TraceConfig:
    """Return the trace configuration of a session, which sets the mark."""
    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(_note_written)
    config.on_request_chunk_sent.append(_note_written)
    return config


async def _note_written(session: aiohttp.ClientSession, context: SimpleNamespace, parameters: object) -> None:
    """Set the mark before the first byte is written."""
    del session, parameters
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.is_written = True


async def answer_to(
    http: aiohttp.ClientSession,
    method: str,
    url: URL | str,
    *,
    bytes_max: int,
    answer_s: float,
    **content: Any,
) -> tuple[aiohttp.ClientResponse, bytes] | Unwritten | Unanswered:
    """Make one request, never twice; returns the response and its body, or what is certain without one.

    The session needs the configuration of `tracing`.
    """
    mark = request_mark()
    try:
        async with asyncio.timeout(CONNECT_S + answer_s):
            async with http.request(
                method, url, **content, trace_request_ctx=mark, allow_redirects=False
            ) as response:
                return response, await bounded_body(response, bytes_max=bytes_max)
    except TimeoutError:
        why = f"no response within {answer_s:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = failure_text(error)
    return Unanswered(why) if mark.is_written else Unwritten(why)


def shaped(value: object, shape: type[_T]) -> _T | None:
    """Convert part of a response to its type; None if it doesn't match."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return None


async def bounded_body(response: aiohttp.ClientResponse, *, bytes_max: int) -> bytes:
    """Read the whole response; raises ValueError if it's too long."""
    data = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        data += piece
        if len(data) > bytes_max:
            raise ValueError("the response is too long")
    return bytes(data)


def failure_text(error: Exception) -> str:
    """Describe a request's failure without its URL, which may contain a token."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the server's name can't be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return "the server's certificate isn't trusted"
        case aiohttp.ClientConnectorError():
            return f"can't connect: {error.os_error.strerror or type(error.os_error).__name__}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return "the connection was cut"
        case aiohttp.InvalidURL():
            return "invalid URL"
        case _:
            return f"the request failed ({type(error).__name__})"
