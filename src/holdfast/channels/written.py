"""Knows whether a request was written: only one that certainly wasn't may simply be made again."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final, TypeVar

import aiohttp
import msgspec

_T = TypeVar("_T")
UNREADABLE: Final = "its answer can't be read"
# How long to wait for an answer about a change of a message: it can be made again without harm.
EDIT_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The request never left this machine."""

    why: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request was written, and no answer came that says what became of it."""

    why: str


def request_mark() -> SimpleNamespace:
    """What to hand to a request as `trace_request_ctx`; `is_written` says whether any of it went out."""
    return SimpleNamespace(is_written=False)


def tracing() -> aiohttp.TraceConfig:
    """The tracing that sets the mark, for a session."""
    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(_note_written)
    config.on_request_chunk_sent.append(_note_written)
    return config


async def _note_written(session: aiohttp.ClientSession, context: SimpleNamespace, parameters: object) -> None:
    """Called before the first byte is handed to the connection."""
    del session, parameters
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.is_written = True


def lost(why: str, mark: SimpleNamespace) -> Unwritten | Unanswered:
    """What is certain about a request that got no answer."""
    return Unanswered(why) if mark.is_written else Unwritten(why)


def shaped(value: object, shape: type[_T]) -> _T | None:
    """A part of an answer in the shape that it should have; None if it has another."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return None


async def bounded_body(response: aiohttp.ClientResponse, *, bytes_max: int) -> bytes:
    """All of an answer; raises ValueError if it is too long."""
    data = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        data += piece
        if len(data) > bytes_max:
            raise ValueError("the answer is too long")
    return bytes(data)


def failure_words(error: Exception) -> str:
    """What went wrong with a request, without its address, which may hold a token."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the name of the server can't be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return "the server's certificate isn't trusted"
        case aiohttp.ClientConnectorError():
            return f"can't connect: {error.os_error.strerror or type(error.os_error).__name__}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return "the connection was cut"
        case aiohttp.InvalidURL():
            return "it is no address"
        case _:
            return f"the request failed ({type(error).__name__})"
