"""Request bodies that clients compress: decoded within the size limit."""

import asyncio
import sys
import zlib

from starlette.requests import Request

from holdfast.server.access.middleware import too_large
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import LARGE_BYTES, read_sent

_GZIP = 16 + zlib.MAX_WBITS


async def read_decoded(request: Request, limits: Limits, *, bytes_max: int) -> bytes:
    """The whole body without its encoding; raises a Problem if it's too long or can't be decoded."""
    body = await read_sent(request, limits, bytes_max=bytes_max)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        return body
    if len(body) < LARGE_BYTES // 16:
        return decoded_body(body, encoding, bytes_max=bytes_max)
    return await asyncio.to_thread(decoded_body, body, encoding, bytes_max=bytes_max)


def decoded_body(body: bytes, encoding: str, *, bytes_max: int) -> bytes:
    """The body without its encoding."""
    match encoding:
        case "gzip" | "x-gzip":
            whole = _inflated(body, bytes_max)
        case "zstd":
            whole = _unzstd(body, bytes_max)
        case _:
            text = f"The encoding {encoding[:40]!r} isn't supported. Send the body as gzip, zstd or unencoded"
            raise Problem(415, text, code="unsupported_encoding", param="Content-Encoding")
    if len(whole) > bytes_max:
        raise too_large(bytes_max)
    return whole


def _inflated(body: bytes, bytes_max: int) -> bytes:
    inflate = zlib.decompressobj(_GZIP)
    try:
        whole = inflate.decompress(body, bytes_max + 1)
    except zlib.error:
        raise _broken("gzip") from None
    if not inflate.eof and len(whole) <= bytes_max:
        raise _broken("gzip")
    return whole


def _unzstd(body: bytes, bytes_max: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    unpack = zstd.ZstdDecompressor()
    try:
        whole = unpack.decompress(body, bytes_max + 1)
    except zstd.ZstdError:
        raise _broken("zstd") from None
    if not unpack.eof and len(whole) <= bytes_max:
        raise _broken("zstd")
    return whole


def _broken(encoding: str) -> Problem:
    return bad_request(f"The body isn't valid {encoding}", code="invalid_encoding", param="Content-Encoding")
