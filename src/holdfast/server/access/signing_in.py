"""Signing browsers in and out, and tickets for their images and downloads."""

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.access import SignedIn, SignedOut, SignInLink, SignInRequest, TicketIssued, TicketRequest
from holdfast.api.operation import SCOPES, Scope
from holdfast.server.access.auth import LINK_MS, OPEN, SIGNED_IN_FOR_MS, BrowserSecrets, cookie_name
from holdfast.server.access.caller import KEY_NAME, SIGN_IN
from holdfast.server.access.middleware import SIGN_IN_BYTES_MAX
from holdfast.server.access.tickets import TICKET_MS, target_of
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
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
