"""Binds the endpoints of keys and signed-in browsers.

Named keys over HTTP: list, add and revoke them.

Signing browsers in and out, and tickets for their images and downloads.
"""

from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import unquote

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.access import (
    CreateKeyRequest,
    KeyList,
    KeyMade,
    KeyRevoked,
    KeyShown,
    SignedIn,
    SignedOut,
    SignInLink,
    SignInRequest,
    TicketIssued,
    TicketRequest,
)
from holdfast.api.operation import SCOPES, Scope
from holdfast.server.access.auth import LINK_MS, OPEN, SIGNED_IN_FOR_MS, BrowserSecrets, cookie_name
from holdfast.server.access.caller import KEY_NAME, SIGN_IN
from holdfast.server.access.keys import KEYS_MAX, NAME_CHARS_MAX, AddedKeys, KeyExists, is_key_name
from holdfast.server.access.middleware import SIGN_IN_BYTES_MAX
from holdfast.server.access.request_secrets import check_is_no_key
from holdfast.server.access.tickets import TICKET_MS, target_of
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request, too_many
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import decoded, json_response, parsed, read_body

TARGET_CHARS_MAX = 2_000


class SignInRoutes:
    """The routes that a browser needs to sign in."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def sign_in(self, request: Request) -> Response:
        """POST /api/sign-in."""
        deps = self._deps
        if "origin" in request.headers and "x-holdfast-page" not in request.headers:
            # An old page would take the cookie, lose the secret, and ask for the key again and again.
            text = "This page is from an older version of the server. Reload it, then sign in"
            raise Problem(409, text, code="page_outdated")
        limits = deps.limits
        body = await read_body(request, limits, bytes_max=SIGN_IN_BYTES_MAX, within_s=limits.header_s)
        wanted = await parsed(body, limits, SignInRequest)
        if deps.keys.is_open:
            return json_response(SignedIn(signed_in=True, name=OPEN, page="", scopes=SCOPES))
        if not wanted.token and not wanted.key:
            raise bad_request("Send either 'token' or 'key'", param="token")
        signed_in = await self._signed_in(wanted)
        if signed_in is None:
            text = "The key is wrong, or the link was already used or has expired"
            raise Problem(401, text, code="invalid_api_key")
        held = deps.keys.scopes_of(signed_in.name)
        scopes: tuple[Scope, ...] = tuple(one for one in SCOPES if one in held)
        answer = json_response(
            SignedIn(signed_in=True, name=signed_in.name, page=signed_in.page, scopes=scopes),
            headers={"Cache-Control": "no-store"},
        )
        answer.set_cookie(
            _cookie_name(request),
            signed_in.cookie,
            max_age=SIGNED_IN_FOR_MS // 1000,
            httponly=True,
            samesite="strict",
            path=deps.options.mount_path or "/",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _signed_in(self, wanted: SignInRequest) -> BrowserSecrets | None:
        sign_ins = self._deps.sign_ins
        if wanted.token and (signed_in := await sign_ins.sign_in_by_link(wanted.token)) is not None:
            return signed_in
        name = self._deps.keys.name_of(wanted.key) if wanted.key else None
        return None if name is None else await sign_ins.sign_in(name)

    async def sign_out(self, request: Request) -> Response:
        """POST /api/sign-out."""
        if cookie := request.scope.get(SIGN_IN):
            await self._deps.sign_ins.sign_out(cookie)
            self._deps.streams.end_where(lambda scope: scope.get(SIGN_IN) == cookie)
        answer = json_response(SignedOut(signed_in=False))
        answer.delete_cookie(_cookie_name(request), path=self._deps.options.mount_path or "/")
        return answer

    async def link(self, request: Request) -> Response:
        """POST /api/sign-in-links."""
        deps = self._deps
        if deps.keys.is_open:
            raise Problem(
                409, "This server doesn't use keys, so you don't need to sign in", code="no_keys_needed"
            )
        token = deps.sign_ins.new_link(request.scope[KEY_NAME])
        link = SignInLink(token=token, expires_in_s=LINK_MS // 1000)
        return json_response(link, 201, headers={"Cache-Control": "no-store"})

    async def ticket(self, request: Request) -> Response:
        """POST /api/tickets."""
        wanted = (await decoded(request, self._deps.limits, TicketRequest)).path
        cookie = request.scope.get(SIGN_IN)
        if cookie is None:
            text = "Only a signed-in browser needs a ticket. Request the resource with your key"
            raise Problem(409, text, code="no_ticket_needed")
        if not wanted.startswith("/") or len(wanted) > TARGET_CHARS_MAX:
            raise bad_request("'path' must be a path on this server", param="path")
        path, _, query = wanted.partition("?")
        ticket = self._deps.tickets.issue(cookie, target_of(unquote(path), query))
        issued = TicketIssued(ticket=ticket, expires_in_s=TICKET_MS // 1000)
        return json_response(issued, 201, headers={"Cache-Control": "no-store"})


def _cookie_name(request: Request) -> str:
    return cookie_name(request.headers.get("host", ""))


class KeyRoutes:
    """The routes under /api/keys; only the response that creates a key contains its secret."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    @property
    def _added(self) -> AddedKeys:
        return self._deps.keys.added

    async def list(self, request: Request) -> Response:
        """GET /api/keys."""
        del request
        keys = self._deps.keys
        given = [_shown(name, "made" if name in keys.made else "configured") for name in keys.configured]
        added = [
            _shown(key.name, "added", created_ms=key.created_ms, scopes=keys.scopes_of(key.name))
            for key in self._added.list()
        ]
        return json_response(KeyList(data=(*given, *added)))

    async def add(self, request: Request) -> Response:
        """POST /api/keys."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, CreateKeyRequest)
        name, scopes = wanted.name.strip(), SCOPES if wanted.scopes is None else wanted.scopes
        if not is_key_name(name):
            raise bad_request(
                f"'name' must be 1 to {NAME_CHARS_MAX} printable characters without / and \\", param="name"
            )
        check_is_no_key(name, param="name")
        if not scopes:
            raise bad_request(f"'scopes' must contain at least one of {', '.join(SCOPES)}", param="scopes")
        if deps.keys.is_open:
            raise Problem(
                409, "Authentication is disabled on this server, so it needs no keys", code="no_keys_needed"
            )
        if len(self._added.list()) >= KEYS_MAX:
            raise too_many(
                f"The limit of {KEYS_MAX} keys is reached. Revoke one first",
                code="too_many_keys",
                retry_after_s=60,
            )
        if name in deps.keys.configured:
            raise _exists()
        try:
            secret = await self._added.add(name, scopes)
        except KeyExists:
            raise _exists() from None
        # A key that was revoked meanwhile is gone.
        known_ms = (key.created_ms for key in self._added.list() if key.name == name)
        created_ms = next(known_ms, deps.clock.now_ms())
        shown = _shown(name, "added", created_ms=created_ms, scopes=scopes)
        made = KeyMade(**asdict(shown), key=secret)
        return json_response(made, 201, headers={"Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """DELETE /api/keys/{name}."""
        name: str = request.path_params["name"]
        if not await self._revoked(name):
            if name in self._deps.keys.made:
                why = "This key is in the data directory. To replace it, delete the file api-key and restart"
                raise Problem(409, why, code="key_configured", param="name")
            if name in self._deps.keys.configured:
                why = "This key is in the configuration. Remove it there, then restart"
                raise Problem(409, why, code="key_configured", param="name")
            raise Problem(404, "No key has this name", code="key_not_found", param="name")
        return json_response(KeyRevoked(name=name, deleted=True))

    async def _revoked(self, name: str) -> bool:
        try:
            return await self._added.revoke(name)
        finally:
            if not self._deps.keys.is_open and not self._deps.keys.mark_of(name):
                # The key no longer works, saved or not, so streams that it or its sign-ins opened end.
                self._deps.streams.end_where(lambda scope: scope.get(KEY_NAME) == name)


def _shown(
    name: str,
    source: Literal["configured", "made", "added"],
    *,
    created_ms: int | None = None,
    scopes: Iterable[Scope] = SCOPES,
) -> KeyShown:
    created_at = None if created_ms is None else created_ms / 1000
    held = frozenset(scopes)
    return KeyShown(
        name=name,
        source=source,
        created_at=created_at,
        scopes=tuple(one for one in SCOPES if one in held),
    )


def _exists() -> Problem:
    return Problem(409, "A key with this name already exists", code="key_exists", param="name")


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    browsers, keys = SignInRoutes(parts.deps), KeyRoutes(parts.deps)
    return {
        "browsers.sign_in": browsers.sign_in,
        "browsers.sign_out": browsers.sign_out,
        "browsers.link": browsers.link,
        "browsers.ticket": browsers.ticket,
        "keys.list": keys.list,
        "keys.add": keys.add,
        "keys.revoke": keys.revoke,
    }
