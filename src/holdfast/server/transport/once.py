"""Idempotency keys: a request sent twice has one effect and one response, also across restarts.

Automatic client retries, and the state left by the first attempt. The official packages retry after a timeout
or a lost connection, with the same bytes and a retry count header.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.index import StoredResponse
from holdfast.interfaces.journal import IdempotencyKey, KeyConflict, Replayed
from holdfast.redaction import is_like_key
from holdfast.runner.inbox import IncomingMessage, OnceFor, Sent
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import raw_response

KEPT_MS = 86_400_000
KEY_CHARS_MAX = 255
KEY_RULE = f"'Idempotency-Key' must be 1 to {KEY_CHARS_MAX} printable characters"
OWN = "\n"  # only the server's own keys begin with it
_encode = msgspec.json.Encoder().encode


class OnceKey(Struct, frozen=True):
    """A request that must have one effect: its idempotency key, scoped to the caller, and its hash."""

    key: str
    digest: str
    expires_at_ms: int

    def of(self, answer: object) -> IdempotencyKey:
        """Stored together with the effect."""
        return IdempotencyKey(self.key, self.digest, _encode(answer), self.expires_at_ms)

    def for_sent(self, answer: Callable[[Sent], object]) -> OnceFor:
        """The same for a response that names what the request creates."""
        return lambda sent: self.of(answer(sent))


def is_key(given: str) -> bool:
    """Whether the text can be an idempotency key."""
    return 0 < len(given) <= KEY_CHARS_MAX and given.isprintable()


def once_key(request: Request, body: bytes, deps: RouteDeps) -> OnceKey | None:
    """The request's idempotency key, if it has one."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not is_key(given):
        raise bad_request(KEY_RULE, param="Idempotency-Key")
    path: str = request.scope["path"]
    digest = sha256(b"\0".join([path.encode("utf-8", "surrogateescape"), body])).hexdigest()
    # A colon separates the two, so the first must not contain one.
    whose: str = request.scope[KEY_NAME].replace(":", "\n")
    key = f"{whose}:{_stored_form(given, deps)}"
    return OnceKey(key, digest, deps.clock.now_ms() + KEPT_MS)


def _stored_form(given: str, deps: RouteDeps) -> str:
    """The key as it's stored: an API key that a client put there by mistake is stored as its hash."""
    holds_secret = is_like_key(given) or deps.redactor.redact_text(given) != given
    return f"sha256={sha256(given.encode()).hexdigest()}" if holds_secret else given


def once_for(
    request: Request, body: bytes, deps: RouteDeps, *, session_id: str, message: IncomingMessage
) -> OnceKey | None:
    """Return the idempotency key of a message: the request's own, or one derived from its client_id.

    A client_id identifies one message of one session, so a repeated message gets the same run. Another text
    with the same id is refused.
    """
    key = once_key(request, body, deps)
    if key is not None or not message.client_id or not session_id:
        return key
    path: str = request.scope["path"]
    digest = sha256(_encode([path, message.text, message.parts])).hexdigest()
    name = sha256(_encode([session_id, message.client_id])).hexdigest()
    return OnceKey(f"{OWN}message:{name}", digest, deps.clock.now_ms() + KEPT_MS)


async def earlier_response(key: OnceKey | None, deps: RouteDeps, *, status: int) -> Response | None:
    """The stored response for this key; raises a Problem if a different request used the key."""
    if key is None:
        return None
    known = await deps.store.stored_response(key.key, now_ms=deps.clock.now_ms())
    return None if known is None else _again(known, key, status)


def replay_headers(sent: Sent | Response) -> dict[str, str]:
    """The header that says that an earlier request with the same key started the run."""
    return {} if isinstance(sent, Sent) else {"Idempotency-Replayed": "true"}


def replayed(result: Replayed | KeyConflict, *, status: int) -> Response:
    """The result when another request has just used the same key."""
    if isinstance(result, KeyConflict):
        raise key_conflict()
    return raw_response(result.answer, status, headers={"Idempotency-Replayed": "true"})


def _again(known: StoredResponse, key: OnceKey, status: int) -> Response:
    if known.digest != key.digest:
        raise key_conflict()
    return raw_response(known.answer, status, headers={"Idempotency-Replayed": "true"})


def key_conflict() -> Problem:
    """The key stands for another request."""
    return Problem(
        409,
        "This Idempotency-Key or client_id was used for a different request. Use a new one",
        code="idempotency_key_conflict",
        param="Idempotency-Key",
    )


KEPT_MAX = 1000
COUNT_HEADER = "x-stainless-retry-count"

Left = TypeVar("Left")


class Abandoned(Generic[Left]):
    """State left by disconnected readers, by request name. Each is returned once, for a limited time.

    `drop` is called with evicted state.
    """

    def __init__(self, clock: Clock, *, kept_s: float, drop: Callable[[Left], None] | None = None) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._drop = drop
        self._left: OrderedDict[str, tuple[Left, float]] = OrderedDict()

    def put(self, name: str, left: Left) -> None:
        """Keep this for a repeat of the request."""
        self._left[name] = (left, self._clock.steady_s())
        while len(self._left) > KEPT_MAX:
            _, (oldest, _) = self._left.popitem(last=False)
            if self._drop is not None:
                self._drop(oldest)

    def take(self, name: str) -> Left | None:
        """Return and remove the state of an earlier request with this name; None if missing or expired."""
        found = self._left.pop(name, None)
        if found is None:
            return None
        left, at_s = found
        return left if self._clock.steady_s() - at_s < self._kept_s else None


def is_repeat(request: Request) -> bool:
    """Whether the client says that it has sent this request before."""
    return request.headers.get(COUNT_HEADER, "0") not in {"", "0"}


def request_name(request: Request, body: bytes) -> str:
    """Return a digest of the sender, the target and the body."""
    whose: str = request.scope[KEY_NAME]
    path: str = request.scope["path"]
    return sha256(b"\0".join([whose.encode(), path.encode("utf-8", "surrogateescape"), body])).hexdigest()
