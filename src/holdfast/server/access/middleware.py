"""The outermost layer: checks every request, and adds the same headers to every response.

The order of checks, before anything is read or looked up: host, origin, key, size.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from types import MappingProxyType
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.api.operations import API_ROOTS, COOKIE_PATHS, OPERATIONS, is_path_of, paths_of
from holdfast.interfaces.ids import begin_work, token_hex
from holdfast.redaction import Redactor, is_like_key
from holdfast.server.access.auth import OPEN, KeyRing, SignIns, cookie_in, cookie_name
from holdfast.server.access.caller import BY_TICKET, KEY_NAME, KEY_SCOPES, SIGN_IN, begin_call
from holdfast.server.access.request_secrets import begin_request, without_secrets
from holdfast.server.access.tickets import Tickets, target_of, without_ticket
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.peers import Peers
from holdfast.server.problems import Problem, bad_request, problem_of
from holdfast.server.unserved import not_of_this_route

_log = logging.getLogger(__name__)
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared, not listened on
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
HEALTH_PATHS = paths_of("health.alive") | paths_of("health.ready")
_SIGN_IN_PATHS = paths_of("browsers.sign_in")
_HOOKS = "/hooks/"
_MOUNT, _MAIN = "/p/", "default"  # before the name of a mounted server; this name is this server's
MOUNTING = "profiles"  # the work that mounts servers
UNREAD = "/"  # a placeholder until the names of the profiles are read
_UPLOAD_PATHS = paths_of("blobs.upload")
_MCP_PATHS = paths_of("mcp.post")
_is_file_path = is_path_of("files.write")
_RELAYED_PATHS = frozenset(path for one in OPERATIONS if one.may_relay for path in one.paths)
SIGN_IN_BYTES_MAX = 4096
_ANTHROPIC_PATH = "/v1/messages"  # errors there have the shape that Anthropic's clients read
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})

# The page loads nothing from other origins, and no other page may embed it.
_CONTENT_POLICY = (
    b"default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    b"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"content-security-policy", _CONTENT_POLICY),
]
# OpenAI's packages read the first, Anthropic's the second.
REQUEST_IDS = (b"x-request-id", b"request-id")
# A response that has one of these itself doesn't get the general one: a browser would enforce both, and a
# relayed response has its provider's request id.
_REPLACED = frozenset(
    (b"content-security-policy", b"x-frame-options", b"cross-origin-resource-policy", *REQUEST_IDS)
)
_CORS_METHODS = b"GET, POST, PUT, PATCH, DELETE, OPTIONS"
# Browser SDKs send their own headers; the star covers all of them except Authorization.
_CORS_HEADERS = (
    b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Id, "
    b"X-Hermes-Session-Key, *"
)
_CORS_EXPOSED = (
    b"X-Hermes-Run-Id, X-Hermes-Session-Id, X-Hermes-Session-Key, Idempotency-Replayed, Retry-After, "
    b"X-Should-Retry, X-Holdfast-Epoch, X-Holdfast-Ignored, X-Request-Id, Request-Id"
)
_SESSION_KEY_CHARS_MAX = 256
_CONTEXT_CHARS = 55  # of a trace's context in W3C's format
_NO_CONTEXT: Mapping[str, str] = MappingProxyType({})
AGAIN_S = 5  # after a 429 that doesn't say when

_UNAUTHORIZED = Problem(
    401,
    "You need a valid API key. Send the header 'Authorization: Bearer KEY' (or 'x-api-key: KEY')",
    code="invalid_api_key",
    headers={"WWW-Authenticate": "Bearer"},
)
_SIGN_IN_AGAIN = Problem(
    401,
    "You're no longer signed in. Sign in again. (A cookie alone isn't enough: send the header "
    "X-Holdfast-Page with it, or a ticket for this resource)",
    code="invalid_api_key",
)
_OPEN_AGAIN = Problem(
    401,
    "This link has expired or belongs to another browser. Open it again from the page",
    code="invalid_api_key",
)


class _AccessHeaders(msgspec.Struct, frozen=True, gc=False):
    """The headers that decide whether a request is admitted."""

    host: str
    origin: str
    authorization: str
    api_keys: tuple[str, ...]  # as Anthropic's and Azure's clients send them
    cookie: str
    page: str
    session_key: str
    body_bytes: int
    context: Mapping[str, str]  # of the caller's trace
    repeated: str  # one of them that was sent twice, so that a proxy in front may have read the other


class Access(Struct, frozen=True):
    """Authenticates requests, and keeps secrets out of responses."""

    keys: KeyRing
    sign_ins: SignIns
    tickets: Tickets
    secrets: Redactor
    peers: Peers | None = None  # other servers that share the store


class AccessMiddleware:
    """Wraps the routes; an ASGI application.

    `sign_ins.new_link` makes the token of the printed sign-in link; `keys.replace` revokes; await `drain`
    before the shutdown; `open_files` counts the connections.
    """

    def __init__(
        self,
        app: ASGIApp,
        options: ServerOptions,
        access: Access,
        *,
        drain: Callable[[], Awaitable[None]],
        mounts: "Mapping[str, AccessMiddleware | None]" = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._drain = drain
        self._mounts = mounts
        self.open_files = options.open_files
        self.keys = access.keys
        self.sign_ins = access.sign_ins
        self._tickets = access.tickets
        self._secrets = access.secrets
        self._peers = access.peers
        self._hosts = _LOOPBACK | {host.lower() for host in options.hosts}
        self._any_host = "*" in options.hosts
        self._any_address = bool(_EVERY_ADDRESS & self._hosts)
        self._origins = frozenset(options.cors_origins)
        self._limits = options.limits
        self._incarnation = token_hex(8).encode()  # of this process, in the ids of its requests
        self._requests = itertools.count()

    async def drain(self) -> None:
        """Let runs come to a safe point, also those of mounted servers."""
        await asyncio.gather(self._drain(), *(one.drain() for one in self._mounts.values() if one))

    def _mounted(self, scope: Scope) -> "tuple[AccessMiddleware, Scope]":
        """Return the server that the path is for, and the request without the prefix of a mounted one."""
        if not (self._mounts and scope["path"].startswith(_MOUNT)):
            return self, scope
        name, _, rest = scope["path"].removeprefix(_MOUNT).partition("/")
        if name == _MAIN and rest.startswith(_MOUNT[1:]):
            return self, scope  # no server is mounted below another prefix
        server = self if name == _MAIN else self._mounts.get(name)
        inner = {**scope, "path": f"/{rest}", "raw_path": quote(f"/{rest}").encode()}
        return (self, scope) if server is None else (server, inner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the application's lifespan."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        server, scope = self._mounted(scope)
        if server is not self:
            await server(scope, receive, send)
            return
        assert scope["type"] == "http", "no other protocol is spoken here, so none gets past the key"
        asked = _access_headers(scope["headers"])
        begin_request(self._secrets, *self._sent_secrets(asked))
        request_id = b"req_%b%08x" % (self._incarnation, next(self._requests))
        begin_work(request=request_id.decode(), **asked.context)
        named = [(header, request_id) for header in REQUEST_IDS]
        response = _ResponseSender(send, [*self._headers(asked), *named])
        try:
            if asked.repeated:
                text = f"The header '{asked.repeated}' is repeated. Send it once"
                raise bad_request(text, code="repeated_header")
            if scope["method"] == "OPTIONS" and self._lists(asked.origin):
                await response.send_whole(204, b"", {"Access-Control-Max-Age": "600"})
                return
            name, receive = await self._authenticated(scope, receive, asked)
            begin_call(name)
            scope[KEY_NAME], scope[KEY_SCOPES] = name, self.keys.scopes_of(name)
            # With an app in the scope, Starlette raises its errors instead of answering in plain text.
            scope["app"] = self
            await self._app(scope, receive, response)
        except Exception as error:  # every failure gets the error envelope
            if response.began:
                raise  # the server closes the connection, so the half response isn't taken for a whole one
            problem = _problem_at(scope["path"], error)
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                _log.warning(
                    "request %s got status %d: %s", request_id.decode(), problem.status, problem.code
                )
            from holdfast.server.provider_formats import error_body

            wire = "anthropic" if scope["path"].startswith(_ANTHROPIC_PATH) else "chat"
            await response.send_whole(problem.status, error_body(problem, wire=wire), problem.headers)

    async def _authenticated(
        self, scope: Scope, receive: Receive, asked: _AccessHeaders
    ) -> tuple[str, Receive]:
        """Return the caller's name and the body, also of requests from other servers; raises a Problem."""
        if self._peers is not None:
            bytes_max = self._bytes_max(scope["path"])
            if (admitted := await self._peers.admit(scope, receive, bytes_max=bytes_max)) is not None:
                return admitted
        if asked.cookie:
            await self.sign_ins.learn(asked.cookie)
        return self._admit(scope, asked), receive

    def brings_key(self, scope: Scope) -> bool:
        """Whether a request is authenticated; asked as soon as its headers are there."""
        server, scope = self._mounted(scope)
        if server is not self:
            return server.brings_key(scope)
        try:
            if self._peers is not None and self._peers.is_signed(scope):
                return True
            asked = _access_headers(scope["headers"])
            is_open = scope["path"] in _SIGN_IN_PATHS or scope["path"].startswith(_HOOKS)
            return not is_open and self._name_of(asked, scope) is not None
        except Problem:
            return False

    def _sent_secrets(self, asked: _AccessHeaders) -> Iterable[str]:
        """Return the caller's credentials."""
        keys = keys_sent(asked.authorization, asked.api_keys)
        # On an open server, clients send any word for a key that they must have.
        sent = [key for key in keys if not self.keys.is_open or is_like_key(key)]
        return (*sent, asked.cookie, asked.page)

    def _lists(self, origin: str) -> bool:
        """Whether pages of this origin may read responses; with * all may, but without the cookie."""
        return origin in self._origins or (bool(origin) and "*" in self._origins)

    def _headers(self, asked: _AccessHeaders) -> list[tuple[bytes, bytes]]:
        headers = SECURITY_HEADERS
        if asked.session_key:
            headers = [*headers, (b"x-hermes-session-key", asked.session_key.encode("latin-1"))]
        if not self._origins:
            return headers
        headers = [*headers, (b"vary", b"Origin")]
        if self._lists(asked.origin):
            headers += [
                (b"access-control-allow-origin", asked.origin.encode("latin-1")),
                (b"access-control-allow-methods", _CORS_METHODS),
                (b"access-control-allow-headers", _CORS_HEADERS),
                (b"access-control-expose-headers", _CORS_EXPOSED),
            ]
        return headers

    def _admit(self, scope: Scope, asked: _AccessHeaders) -> str:
        """The caller's name; raises a Problem if the request isn't admitted."""
        path: str = scope["path"]
        if path in HEALTH_PATHS:
            return ""
        if path.startswith(_HOOKS):
            # Senders know the server by any name; the signature is checked once the body is there.
            if asked.body_bytes > self._limits.hook_bytes_max:
                raise too_large(self._limits.hook_bytes_max)
            return ""
        self._check_host(asked)
        if self._mounts and path.startswith(_MOUNT):
            raise self._unready(path)
        if path in _SIGN_IN_PATHS:
            self._check_origin(asked)
            if asked.body_bytes > SIGN_IN_BYTES_MAX:
                raise too_large(SIGN_IN_BYTES_MAX)
            return ""
        name = self._name_of(asked, scope) if path.startswith(API_ROOTS) else ""
        if name is None:
            raise _refusal(asked, scope)
        most = self._bytes_max(path)
        if asked.body_bytes > most:
            raise too_large(most)
        return name

    def _unready(self, path: str) -> Problem:
        """Return the error for a server that isn't mounted, or not yet."""
        if self._mounts.keys().isdisjoint([UNREAD, path.removeprefix(_MOUNT).partition("/")[0]]):
            return Problem(404, "This server has no such profile", code="profile_not_found")
        text = "The profile isn't ready. GET /health/detailed shows why"
        return Problem(503, text, code="profile_not_ready", headers={"Retry-After": "2"})

    def _bytes_max(self, path: str) -> int:
        """How large a body of this path may be."""
        limits = self._limits
        if path in _RELAYED_PATHS:
            # An agent's limit applies once the model is known.
            return max(limits.body_bytes_max, limits.relayed_bytes_max)
        if path.startswith(_HOOKS):
            return limits.hook_bytes_max
        is_upload = path in _UPLOAD_PATHS or _is_file_path(path)
        return limits.blob_bytes_max if is_upload else limits.body_bytes_max

    def _check_host(self, asked: _AccessHeaders) -> None:
        """Refuse DNS rebinding: a page whose DNS name points here sends that name as its host."""
        name = _host_name(asked.host)
        if not (self._any_host or name in self._hosts or (self._any_address and _is_address(name))):
            raise Problem(
                421,
                "Unknown host name. Add it to `hosts` in the configuration",
                code="unknown_host",
            )

    def _name_of(self, asked: _AccessHeaders, scope: Scope) -> str | None:
        is_mcp = scope["path"] in _MCP_PATHS
        if is_mcp:
            self._check_origin(asked)  # its clients are programs, and the protocol asks for this check
        if self.keys.is_open:
            if scope["method"] in _UNSAFE:
                self._check_origin(asked)
            return OPEN
        kind, _, secret = asked.authorization.partition(" ")
        for given in (secret.strip() if kind.lower() == "bearer" else "", *asked.api_keys):
            if given and (name := self.keys.name_of(given)) is not None:
                return name
        name = self._signed_in(asked, scope) if asked.cookie and not is_mcp else None
        if name is not None:
            # Browsers add the cookie automatically, so the page that sent the request must be ours.
            self._check_origin(asked)
            scope[SIGN_IN] = asked.cookie
        return name

    def _signed_in(self, asked: _AccessHeaders, scope: Scope) -> str | None:
        """The key name of a signed-in browser: needs the cookie, and the page's secret or a ticket."""
        if asked.page:
            return self.sign_ins.name_of(asked.cookie, asked.page)
        if scope["path"] in COOKIE_PATHS:
            return self.sign_ins.owner_of(asked.cookie)
        ticket, query = without_ticket(scope["query_string"].decode("latin-1"))
        if not ticket or scope["method"] in _UNSAFE:
            return None
        target = target_of(scope["path"], query)
        if not self._tickets.opens(asked.cookie, ticket, target=target):
            return None
        scope[BY_TICKET] = True
        return self.sign_ins.owner_of(asked.cookie)

    def _check_origin(self, asked: _AccessHeaders) -> None:
        origin = asked.origin
        own = origin.partition("://")[2] == asked.host
        if origin and not own and origin not in self._origins:
            raise Problem(403, "Requests from this origin aren't allowed", code="foreign_origin")


class _ResponseSender:
    """The `send` of one request: adds the headers, and knows whether the response has begun."""

    __slots__ = ("_headers", "_send", "began")

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.began = False

    def __call__(self, message: Message) -> Awaitable[None]:  # not a coroutine: it's called for every frame
        if message["type"] == "http.response.start":
            self.began = True
            own: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            names = {name for name, _ in own}
            own += [
                header for header in self._headers if header[0] not in _REPLACED or header[0] not in names
            ]
            if message["status"] == HTTPStatus.TOO_MANY_REQUESTS and b"retry-after" not in names:
                own.append((b"retry-after", b"%d" % AGAIN_S))  # a provider's own may say nothing
            message["headers"] = own
        return self._send(message)

    async def send_whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a small response that needs no route."""
        lines = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        if body:
            lines += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self({"type": "http.response.start", "status": status, "headers": lines})
        await self._send({"type": "http.response.body", "body": body})


def _problem_at(path: str, error: Exception) -> Problem:
    problem = without_secrets(problem_of(error))
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED and (why := not_of_this_route(path)):
        problem.message = f"{problem.message}. {why}"
    return problem


def _refusal(asked: _AccessHeaders, scope: Scope) -> Problem:
    if without_ticket(scope["query_string"].decode("latin-1"))[0]:
        return _OPEN_AGAIN
    return _SIGN_IN_AGAIN if asked.cookie and scope["path"] not in _MCP_PATHS else _UNAUTHORIZED


def keyless_bytes_max(path: str, limits: Limits) -> int:
    """How much of a body is kept of a request that brings no key: a sign-in, or a delivery to a hook."""
    return limits.hook_bytes_max if path.startswith(_HOOKS) else SIGN_IN_BYTES_MAX


def too_large(bytes_max: int) -> Problem:
    """The body is larger than its route accepts."""
    text = f"The request body is larger than the limit of {bytes_max} bytes for this path"
    return Problem(413, text, code="body_too_large")


_API_KEYS = (b"x-api-key", b"api-key")
# These decide who asks, what they can do, and which conversation, earlier request or trace is meant.
_DECIDING = frozenset(
    (
        b"host",
        b"origin",
        b"authorization",
        b"idempotency-key",
        b"traceparent",
        b"x-holdfast-page",
        b"x-holdfast-chat-id",
        b"x-holdfast-user-id",
        b"x-openwebui-chat-id",
        b"x-openwebui-user-id",
        b"x-hermes-session-id",
        b"x-hermes-session-key",
        *_API_KEYS,
    )
)


def keys_sent(authorization: str, api_keys: Iterable[str]) -> Iterable[str]:
    """The keys in the headers of a request, however a client sends them: all of them are secrets."""
    _, _, bearer = authorization.partition(" ")
    return (bearer.strip(), *api_keys)


def _access_headers(headers: Iterable[tuple[bytes, bytes]]) -> _AccessHeaders:
    found: dict[bytes, str] = {}
    cookies: list[str] = []
    body_bytes, repeated = 0, ""
    for name, value in headers:
        if name == b"content-length":
            body_bytes = int(value) if value.isdigit() else 0
        elif name == b"cookie":
            cookies.append(value.decode("latin-1"))
        elif name in _DECIDING:
            text = value.decode("latin-1")
            if (name == b"host" and name in found) or found.setdefault(name, text) != text:
                repeated = name.decode()
            found[name] = text
    host = found.get(b"host", "").lower()
    context = found.get(b"traceparent", "")
    return _AccessHeaders(
        host=host,
        origin=found.get(b"origin", ""),
        authorization=found.get(b"authorization", ""),
        api_keys=tuple(found[name] for name in _API_KEYS if name in found),
        cookie=cookie_in(";".join(cookies), cookie_name(host)) if cookies else "",
        page=found.get(b"x-holdfast-page", ""),
        session_key=found.get(b"x-hermes-session-key", "")[:_SESSION_KEY_CHARS_MAX],
        body_bytes=body_bytes,
        context={"traceparent": context} if len(context) == _CONTEXT_CHARS else _NO_CONTEXT,
        repeated=repeated,
    )


def _is_address(name: str) -> bool:
    """Whether this is an IP address, which no DNS name points to."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """The host without its port, and an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
