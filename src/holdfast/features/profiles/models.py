"""Profiles as models of the OpenAI-compatible routes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from holdfast.features.profiles.serving import ProfileKeys
from holdfast.server.access.caller import KEY_SCOPES
from holdfast.server.access.middleware import SECURITY_HEADERS, UNREAD
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import ModelResolver
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import LARGE_BYTES

# Headers of the request that name its caller, or that no longer hold for the decoded body.
_REPLACED = frozenset(
    (
        *(b"authorization", b"x-api-key", b"api-key", b"cookie", b"x-holdfast-page"),
        *(b"content-encoding", b"content-length", b"transfer-encoding"),
    )
)
_ADDED_AGAIN = frozenset(name for name, _ in SECURITY_HEADERS) | {b"vary"}


class _Named(msgspec.Struct):
    model: str = ""


class ProfileModels(ModelResolver):
    """Passes requests that name a profile as their model on to it. Only keys with the scope `admin` can."""

    owner = "profile"

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    @override
    def listed(self) -> Sequence[str]:
        return [name for name in self._deps.mounts if name != UNREAD]

    @override
    def has(self, name: str) -> bool:
        return name in self._deps.mounts

    @override
    async def answer(self, request: Request, body: bytes) -> Any | None:
        if not self._deps.mounts:
            return None
        decode = msgspec.json.Decoder(_Named).decode
        try:
            named = decode(body) if len(body) < LARGE_BYTES else await asyncio.to_thread(decode, body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None  # the agent's route says what is wrong
        if named.model not in self._deps.mounts:
            return None
        if "admin" not in request.scope[KEY_SCOPES]:
            text = f"This key can't use the profile {named.model}. Use one with the scope 'admin', or its own"
            raise Problem(403, text, code="profile_not_allowed", param="model")
        profile = self._deps.mounts[named.model]
        if profile is None:
            raise Problem(
                503, "The profile isn't ready", code="profile_not_ready", headers={"Retry-After": "2"}
            )
        key = self._deps.singleton(ProfileKeys)[named.model]

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            headers = [one for one in scope["headers"] if one[0] not in _REPLACED]
            headers.append((b"authorization", f"Bearer {key}".encode()))
            headers.append((b"content-length", b"%d" % len(body)))
            own = {name: scope[name] for name in ("type", "asgi", "http_version", "method", "scheme", "path")}
            own |= {name: scope[name] for name in ("raw_path", "query_string", "client", "server")}
            await profile({**own, "headers": headers}, _replayed(body, receive), _without_repeats(send))

        return respond


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receive the body once more, and then what the connection has."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return rest.pop() if rest else await receive()

    return replay


def _without_repeats(send: Send) -> Send:
    """Send the response without the headers that this server adds, too."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [one for one in message["headers"] if one[0] not in _ADDED_AGAIN]
            message["headers"] = [one for one in kept if not one[0].startswith(b"access-control-")]
        await send(message)

    return sent
