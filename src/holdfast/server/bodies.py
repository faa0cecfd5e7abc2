"""What clients send: read within limits, decoded into typed values, refused with the field's name."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.edge import too_large
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request

SESSION_ID_CHARS_MAX = 256
_FIELD = re.compile(r"`\$(?:\.(?P<field>[^`\s]*))?`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_encode = msgspec.json.Encoder().encode

_NOTHING = frozenset({b"", b"null"})

Body = TypeVar("Body")


async def read_body(request: Request, limits: Limits, *, bytes_max: int = 0) -> bytes:
    """The whole body; raises a Problem if it is too long or comes too slowly."""
    most = bytes_max or limits.body_bytes_max
    chunks: list[bytes] = []
    size = 0
    whole = asyncio.timeout(limits.body_s)
    try:
        async with whole:
            while True:
                async with asyncio.timeout(limits.body_gap_s):
                    message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "The connection ended before the body did", code="body_cut_off")
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > most:
                    raise too_large(most)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except TimeoutError:
        waited_s = limits.body_s if whole.expired() else limits.body_gap_s
        raise Problem(
            408,
            f"The body did not arrive in time ({waited_s:g} s)",
            code="body_too_slow",
            headers={"Connection": "close"},
        ) from None


async def decoded(request: Request, limits: Limits, kind: type[Body]) -> Body:
    """The body as a value; nothing at all counts as an empty object."""
    return parsed(await read_body(request, limits), limits, kind)


def parsed(body: bytes, limits: Limits, kind: type[Body]) -> Body:
    """The bytes as a value; raises a Problem that names the field."""
    body = body.strip()
    if body in _NOTHING:
        body = b"{}"
    if _depth(body) > limits.json_depth_max:
        raise bad_request(
            f"The JSON is nested deeper than {limits.json_depth_max} levels", code="json_too_deep"
        )
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"Invalid JSON: {error}", code="invalid_json") from None


def converted(value: object, kind: type[Body], *, param: str) -> Body:
    """A part of a body that has several forms, as a value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), inside=param) from None


def _invalid(said: str, *, inside: str = "") -> Problem:
    reason, _, _ = said.partition(" - at `")
    place = _FIELD.search(said)
    field = (place["field"] or "") if place else ""
    missing = _MISSING.search(said)
    if missing:
        field = f"{field}.{missing['field']}" if field else missing["field"]
    param = f"{inside}.{field}" if inside and field else inside or field
    param = param.replace(".[", "[").replace("[...]", "[]")
    if not param:
        return bad_request(f"The body must be a JSON object: {reason}")
    return bad_request(f"Invalid '{param}': {reason}", param=param)


def _depth(body: bytes) -> int:
    """How deep the brackets go; strings are skipped, since they may hold brackets too."""
    if body.count(b"[") + body.count(b"{") <= 1:
        return 1
    deepest = depth = at = 0
    # most bytes of a large body are inside strings, and `find` steps over those at the speed of C
    for token in _TOKENS.finditer(body):
        at = body[token.start()]
        if at in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif at in b"]}":
            depth -= 1
    return deepest


_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def json_answer(answer: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(answer), status, headers, media_type="application/json")


def raw_answer(body: bytes, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that is encoded already."""
    return Response(body, status, headers, media_type="application/json")


def checked_session_id(session_id: str) -> str:
    """The id, if it is one; raises a Problem."""
    fits = (
        0 < len(session_id) <= SESSION_ID_CHARS_MAX
        and session_id.isprintable()
        and session_id not in {".", ".."}
        and not set(session_id) & {"/", "\\"}
    )
    if not fits:
        raise bad_request(
            "'session_id' must be 1 to 256 printable characters without / and \\", param="session_id"
        )
    return session_id


def whole_number(request: Request, name: str, *, default: int, most: int) -> int:
    """A number in the query; raises a Problem that names it."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit()) or int(given[:18]) < 1:
        raise bad_request(f"'{name}' must be a whole number from 1 to {most}", param=name)
    return min(int(given[:18]), most)


def truth(value: object, *, param: str) -> bool:
    """A yes or no in any of the forms that clients send."""
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
    """A yes or no in the query; the name alone is a yes."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return given is not None
    if given.strip().lower() in {"", "null", "none"}:
        raise bad_request(f"'{name}' must be true or false", param=name)
    return truth(given, param=name)
