"""The routes of the relay as its clients see them: keep-alives, errors and error events of each protocol."""

import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.features.relay.lifecycle import DocumentParser
from holdfast.models.wire import StreamParser
from holdfast.server.problems import Problem
from holdfast.server.provider_formats import error_body, response_fields
from holdfast.targets import Target, Wire

COMMENT = b": keep-alive\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
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
INPUT_TOKENS = Surface("responses", "/responses/input_tokens", COMMENT, DocumentParser, is_free=True)
COMPACTING = Surface("responses", "/responses/compact", COMMENT, DocumentParser)
# The routes that agents and relayed models share. Which of them answers depends on the model's name.
SHARED: Mapping[str, Surface] = MappingProxyType(
    {
        "/v1/chat/completions": SURFACES["chat"],
        "/v1/responses": SURFACES["responses"],
        "/v1/responses/input_tokens": INPUT_TOKENS,
        "/v1/responses/compact": COMPACTING,
    }
)
PLAIN_PATHS: Mapping[str, str] = MappingProxyType(
    {"/v1/completions": "/completions", "/v1/embeddings": "/embeddings"}
)


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


def plain_surface(path: str, targets: tuple[Target, ...]) -> Surface:
    """The route at the first target that can have it; raises a Problem if none can."""
    able = [target for target in targets if target.wire != "anthropic"]
    if targets and not able:
        raise not_at_target(path, targets[0])
    return Surface(able[0].wire if able else "chat", path, COMMENT, DocumentParser)


def not_at_target(path: str, target: Target) -> Problem:
    """The target's protocol hasn't got the route."""
    text = (
        f"The target {target.name} uses another protocol ({target.wire}), which has no {path}. Choose a "
        "model whose target supports it"
    )
    return Problem(404, text, code="route_not_served", param="model")


def not_for_agents(name: str, path: str) -> Problem:
    """An agent was named where only models answer."""
    text = (
        f"{name[:100]} is an agent, but {path} serves only relayed models: those listed by GET /v1/models "
        "as owned by holdfast-relay. To run the agent, use /v1/chat/completions or /v1/responses"
    )
    return Problem(404, text, code="route_not_served", param="model")
