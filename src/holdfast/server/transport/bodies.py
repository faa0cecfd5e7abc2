"""Request bodies: read within limits and decoded into typed values; errors name the field.

Request bodies that clients compress: decoded within the size limit.
"""

import asyncio
import codecs
import sys
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.runs import SESSION_ID_CHARS_MAX
from holdfast.interfaces.ids import is_automation
from holdfast.server.access.middleware import too_large
from holdfast.server.access.request_secrets import check_holds_no_secret
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request

LARGE_BYTES = 64 * 1024  # checking more than this would block the event loop
_encode = msgspec.json.Encoder().encode

_NOTHING = frozenset({b"", b"null"})
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Body = TypeVar("Body")


async def read_body(request: Request, limits: Limits, *, bytes_max: int = 0, within_s: float = 0.0) -> bytes:
    """The whole body; raises a Problem if it's encoded, too long or arrives too slowly."""
    _check_encoding(request)
    return await read_sent(request, limits, bytes_max=bytes_max, within_s=within_s)


async def read_sent(request: Request, limits: Limits, *, bytes_max: int = 0, within_s: float = 0.0) -> bytes:
    """The whole body as it was sent, encoded or not; raises a Problem as `read_body` does."""
    most = bytes_max or limits.body_bytes_max
    chunks: list[bytes] = []
    size = 0
    whole_s = within_s or limits.body_total_s
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + whole_s
    waiting = asyncio.timeout_at(min(now_s() + limits.body_s, end_s))
    try:
        async with waiting:
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(
                        400, "The connection closed before the whole body arrived", code="body_cut_off"
                    )
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > most:
                    raise too_large(most)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
                waiting.reschedule(min(now_s() + limits.body_s, end_s))
    except TimeoutError:
        waited_s = whole_s if now_s() >= end_s else limits.body_s
        raise Problem(
            408,
            f"The request body didn't arrive within {waited_s:g} s. Retry",
            code="body_too_slow",
            headers={"Connection": "close"},
        ) from None


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        text = f"The encoding {encoding[:40]!r} isn't supported. Send the body unencoded"
        raise Problem(415, text, code="unsupported_encoding", param="Content-Encoding")


async def decoded(request: Request, limits: Limits, kind: type[Body]) -> Body:
    """The body as a value; an empty body counts as an empty object."""
    return await parsed(await read_body(request, limits), limits, kind)


async def parsed(body: bytes, limits: Limits, kind: type[Body]) -> Body:
    """The bytes as a value; raises a Problem that names the field."""
    if len(body) < LARGE_BYTES:
        return _parsed(body, limits, kind)
    return await asyncio.to_thread(_parsed, body, limits, kind)


def _parsed(body: bytes, limits: Limits, kind: type[Body]) -> Body:
    body = body.removeprefix(codecs.BOM_UTF8).strip()
    if body in _NOTHING:
        body = b"{}"
    _check_shape(body, limits)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        return _with_whole_numbers(body, kind, error)
    except UNREADABLE as error:
        raise unreadable(error) from None


def _with_whole_numbers(body: bytes, kind: type[Body], error: msgspec.ValidationError) -> Body:
    """The body with 2.0 read as 2, if that was its error: some JSON encoders write all numbers as floats."""
    if "got `float`" in str(error):
        try:
            return msgspec.convert(_whole(msgspec.json.decode(body)), kind)
        except msgspec.ValidationError as remaining:
            error = remaining
    from holdfast.server.transport.field_errors import choices_of, field_problem  # only bad bodies need it

    raise field_problem(error, choices=choices_of(kind)) from None


def _whole(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole(one) for name, one in cast("dict[str, Any]", value).items()}
        case list():
            return [_whole(one) for one in cast("list[Any]", value)]
        case _:
            return value


def json_value(text: bytes | msgspec.Raw, kind: type[Body]) -> Body:
    """Decode JSON to a plain value; raises a Problem if it's invalid."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        raise unreadable(error) from None


def unreadable(error: Exception) -> Problem:
    """Why JSON that was sent can't be read."""
    if str(error).startswith("Expected `object`"):
        return bad_request("The body must be a JSON object")
    return bad_request(f"Invalid JSON: {error}", code="invalid_json")


def converted(value: object, kind: type[Body], *, param: str) -> Body:
    """A part of a body as a value, for parts with several forms."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        from holdfast.server.transport.field_errors import field_problem

        raise field_problem(error, inside=param) from None


def _check_shape(body: bytes, limits: Limits) -> None:
    """Refuse JSON that is nested too deep or has too many values, before it's decoded."""
    quotes = body.count(b'"')
    if quotes and b"\\" in body:
        # Without escapes, each quote begins or ends a string; the text in between doesn't matter.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = body.count(b'"')
    if quotes > 2 * limits.json_values_max:
        raise _too_many_values(limits)
    outside = b"".join(body.split(b'"')[::2])
    if outside.count(b",") > limits.json_values_max:
        raise _too_many_values(limits)
    brackets = outside.translate(None, _NO_BRACKETS)
    depth = 0
    for bracket in brackets[: 2 * limits.json_brackets_max]:
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.json_depth_max:
            text = f"The JSON is nested deeper than {limits.json_depth_max} levels"
            raise bad_request(text, code="json_too_deep")
    if brackets.count(b"[") + brackets.count(b"{") > limits.json_brackets_max:
        text = f"The JSON has more than {limits.json_brackets_max} lists and objects"
        raise bad_request(text, code="json_too_large")


def _too_many_values(limits: Limits) -> Problem:
    return bad_request(f"The JSON has more than {limits.json_values_max} values", code="json_too_large")


_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def json_response(answer: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(_encode(answer), status, headers, media_type="application/json")


def raw_response(body: bytes, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response from encoded bytes."""
    return Response(body, status, headers, media_type="application/json")


def checked_session_id(session_id: str, *, param: str = "session_id") -> str:
    """The id if it's valid; raises a Problem otherwise."""
    fits = (
        0 < len(session_id) <= SESSION_ID_CHARS_MAX
        and session_id.isprintable()
        and session_id not in {".", ".."}
        and not set(session_id) & {"/", "\\"}
    )
    if is_automation(session_id):
        raise bad_request(f"'{param}' starts with a prefix that is reserved for automations", param=param)
    if not fits:
        raise bad_request(f"'{param}' must be 1 to 256 printable characters without / and \\", param=param)
    check_holds_no_secret(session_id, param=param)
    return session_id


def has_already(request: Request, etag: str) -> bool:
    """Whether the client already has this version; a weak tag from a compressing proxy counts too."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or etag in (one.strip().removeprefix("W/") for one in known.split(","))


def whole_number(request: Request, name: str, *, default: int, most: int) -> int:
    """A number in the query; raises a Problem that names it."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit()) or int(given[:18]) < 1:
        raise bad_request(f"'{name}' must be a whole number from 1 to {most}", param=name)
    return min(int(given[:18]), most)


def truth(value: object, *, param: str) -> bool:
    """A boolean in any of the forms that clients send."""
    match value:
        case bool():
            return value
        case int() | float():
            return value != 0
        case None:
            return False
        case str():
            word = value.strip().lower()
            if word in {"true", "1", "yes", "on", "y"}:
                return True
            if word in {"false", "0", "no", "off", "n", "", "null", "none"}:
                return False
        case _:
            pass
    raise bad_request(f"'{param}' must be true or false", param=param)


def flag(request: Request, name: str) -> bool:
    """A boolean in the query; the name alone means true."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return given is not None
    if given.strip().lower() in {"", "null", "none"}:
        raise bad_request(f"'{name}' must be true or false", param=name)
    return truth(given, param=name)


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
