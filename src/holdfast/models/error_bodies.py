"""Turns the error bodies and error frames of all providers into one type."""

import re

import msgspec

from holdfast.model_events import ErrorReported

BODY_CHARS_MAX = 64 * 1024
MESSAGE_CHARS_MAX = 2000

_Code = str | int | float | None
# Each part ends where the next tag begins, so that a page is read in time linear in its length.
_TITLE = re.compile(r"<(?:title|h1)\b[^<>]*>([^<]+)", re.IGNORECASE)
_STATUS_DIGITS = 3


class _Metadata(msgspec.Struct):
    """OpenRouter's metadata: what the provider behind it said."""

    raw: object = None


class _Fault(msgspec.Struct):
    """An error object; each provider sets some of these fields."""

    message: str | None = None
    msg: str | None = None
    detail: str | None = None
    error: str | None = None
    type: str | None = None
    code: _Code = None
    status: _Code = None
    status_code: _Code = None
    metadata: _Metadata | None = None


class _Envelope(msgspec.Struct):
    """The object around an error object, or the error itself if there is none."""

    error: _Fault | str | list[_Fault | str] | None = None
    errors: list[_Fault | str] | None = None
    detail: _Fault | str | list[_Fault | str] | None = None
    message: str | None = None
    msg: str | None = None
    type: str | None = None
    code: _Code = None
    status: _Code = None
    status_code: _Code = None


_Body = _Envelope | list[_Envelope] | str
_BODY: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)


def read_error(status: int, body: bytes) -> ErrorReported:
    """The error in a response with an error status, whatever its body is."""
    found = find_error(body)
    if found is None:
        text = _text(body)
        return ErrorReported(message=_plain(text) or f"HTTP {status}", status=status, body=text)
    return msgspec.structs.replace(found, status=status or found.status)


def find_error(body: bytes) -> ErrorReported | None:
    """The error that a JSON document reports; None if it has no known shape."""
    try:
        envelope = _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # it may still be an answer; the caller knows
    if isinstance(envelope, list):
        envelope = envelope[0] if envelope else _Envelope()
    if isinstance(envelope, str):
        envelope = _Envelope(message=envelope)
    fault = _fault_of(envelope)
    message = _message_of(fault)
    if not message and not (envelope.error or envelope.errors):
        return None
    text = _text(body)
    return ErrorReported(
        message=(message or _plain(text))[:MESSAGE_CHARS_MAX],
        code=_word(fault.code) or _word(fault.status),
        kind=fault.type or "",
        status=_http_status(envelope, fault),
        body=text,
    )


def _fault_of(envelope: _Envelope) -> _Fault:
    for held in (envelope.error, envelope.errors, envelope.detail):
        found = held[0] if isinstance(held, list) and held else held
        if isinstance(found, _Fault):
            return found
        if isinstance(found, str) and found:
            return _Fault(message=found, code=envelope.code, type=envelope.type)
    return _Fault(
        message=envelope.message or envelope.msg,
        code=envelope.code,
        status=envelope.status,
        type=envelope.type,
    )


def _message_of(fault: _Fault) -> str:
    message = fault.message or fault.msg or fault.detail or fault.error or ""
    behind = fault.metadata.raw if fault.metadata else None
    if isinstance(behind, str) and behind and behind not in message:
        # "Provider returned error" alone helps nobody.
        message = f"{message}: {behind}" if message else behind
    return message.strip()


def _http_status(envelope: _Envelope, fault: _Fault) -> int:
    for given in (envelope.status, envelope.status_code, fault.status, fault.status_code, fault.code):
        digits = str(given)
        if len(digits) == _STATUS_DIGITS and digits[0] in "45" and digits.isdecimal():
            return int(digits)
    return 0


def _text(body: bytes) -> str:
    return body[: 4 * BODY_CHARS_MAX].decode(errors="replace")[:BODY_CHARS_MAX]


def _word(code: _Code) -> str:
    return "" if code is None else str(code)


def _plain(text: str) -> str:
    if text.lstrip()[:1] == "<":
        title = _TITLE.search(text)
        text = title.group(1) if title else "an HTML page"
    from html import unescape  # with a large table, for errors alone

    return unescape(" ".join(text.split()))[:MESSAGE_CHARS_MAX]
