"""The three protocols that clients of the relay speak: keep-alives, errors and error events of each."""

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.models.wire import StreamParser
from holdfast.server.openai.response_fields import response_fields
from holdfast.server.problems import Problem
from holdfast.server.relay.lifecycle import DocumentParser
from holdfast.targets import Wire

COMMENT = b": keep-alive\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
OVERLOADED = 529
_ANTHROPIC_TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.PAYMENT_REQUIRED: "billing_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
    OVERLOADED: "overloaded_error",
}
_ANTHROPIC_CODES = frozenset({"thread_unsupported_request"})  # codes that Anthropic's packages act on
_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d+)')
_CREATED = re.compile(rb'^data: ?(\{.*"type"\s*:\s*"response\.created".*\})\r?$', re.MULTILINE)
_encode = msgspec.json.Encoder().encode


class Surface(Struct, frozen=True):
    """One protocol as its clients see it."""

    wire: Wire
    path: str
    keep_alive: bytes
    parser: Callable[[], StreamParser] | None = None  # of what isn't an answer of a chat model
    is_free: bool = False  # providers count tokens for nothing

    @property
    def is_answer(self) -> bool:
        """Whether it brings an answer of a chat model."""
        return self.parser is None

    def error_body(self, problem: Problem) -> bytes:
        """An error as the body of a response."""
        return error_body(problem, wire=self.wire)

    def error_event(self, problem: Problem, *, sent: "SentFrames") -> bytes:
        """An error as the last event of a stream that has begun."""
        if self.wire == "responses":
            return _failed_response(problem, sent)
        name = b"event: error\n" if self.wire == "anthropic" else b""
        return b"%bdata: %b\n\n" % (name, self.error_body(problem))


SURFACES: dict[Wire, Surface] = {
    "chat": Surface("chat", "/chat/completions", COMMENT),
    "responses": Surface("responses", "/responses", COMMENT),
    "anthropic": Surface("anthropic", "/messages", PING),
}
COUNTING = Surface("anthropic", "/messages/count_tokens", PING, DocumentParser, is_free=True)


def error_body(problem: Problem, *, wire: Wire) -> bytes:
    """An error in the shape of a wire."""
    if wire != "anthropic":
        return problem.encoded()
    kind = _ANTHROPIC_TYPES.get(problem.status)
    if kind is None:
        is_ours = problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = "api_error" if is_ours else "invalid_request_error"
    error: dict[str, Any] = {"type": kind, "message": problem.message}
    error |= {"param": problem.param, "code": problem.code}
    if problem.code in _ANTHROPIC_CODES:
        error["details"] = {"error_code": problem.code}
    return _encode({"type": "error", "error": error})


class SentFrames(Struct):
    """The state that an error event continues: the created response, and the number of its last event."""

    created: bytes = b""
    number: int = -1

    def take(self, piece: bytes) -> None:
        """Read more of what was sent."""
        if not self.created and (found := _CREATED.search(piece)):
            self.created = found[1]
        at = piece.rfind(b'"sequence_number"')
        if at >= 0 and (found := _NUMBER.match(piece, at)):
            self.number = int(found[1])


class _Created(msgspec.Struct):
    response: dict[str, Any]


def _created_response(frame: bytes) -> dict[str, Any]:
    """The response that a stream began with; without one, a response that says only when it failed."""
    fields: dict[str, Any] = {"id": "resp_failed", "object": "response", "created_at": int(time.time())}
    fields |= {"model": "", "output": [], **response_fields({})}
    try:
        return fields | msgspec.json.decode(frame, type=_Created).response
    except msgspec.MsgspecError:
        return fields


def _failed_response(problem: Problem, sent: SentFrames) -> bytes:
    response = {
        **_created_response(sent.created),
        "status": "failed",
        "error": {"code": problem.code, "message": problem.message},
    }
    event = {"type": "response.failed", "sequence_number": sent.number + 1, "response": response}
    return b"event: response.failed\ndata: %b\n\n" % _encode(event)
