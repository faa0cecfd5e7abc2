"""Signing a browser in and out."""

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from holdfast.server.auth import COOKIE, OPEN, SIGNED_IN_FOR_MS, cookie_in
from holdfast.server.bodies import decoded, json_answer
from holdfast.server.means import ServerMeans
from holdfast.server.problems import Problem, bad_request


class SignInRequest(msgspec.Struct):
    """The body of POST /api/sign-in: the one-time token of the printed link, or an API key."""

    token: str | None = None
    key: str | None = None


class SignInRoutes:
    """What the routes do that a browser needs to come in."""

    def __init__(self, means: ServerMeans) -> None:
        self._means = means

    async def sign_in(self, request: Request) -> Response:
        """POST /api/sign-in."""
        means = self._means
        wanted = await decoded(request, means.limits, SignInRequest)
        if means.keys.is_open:
            return json_answer({"signed_in": True, "name": OPEN})
        if not wanted.token and not wanted.key:
            raise bad_request("Either 'token' or 'key' is needed", param="token")
        signed_in = await self._signed_in(wanted)
        if signed_in is None:
            raise Problem(401, "The key is wrong, or the link was used before", code="invalid_api_key")
        name, cookie = signed_in
        answer = json_answer({"signed_in": True, "name": name})
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=SIGNED_IN_FOR_MS // 1000,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _signed_in(self, wanted: SignInRequest) -> tuple[str, str] | None:
        """Name and cookie of who is let in."""
        sign_ins = self._means.sign_ins
        if wanted.token and (signed_in := await sign_ins.sign_in_once(wanted.token)) is not None:
            return signed_in
        name = self._means.keys.name_of(wanted.key) if wanted.key else None
        return None if name is None else (name, await sign_ins.sign_in(name))

    async def sign_out(self, request: Request) -> Response:
        """POST /api/sign-out."""
        if cookie := _cookie_of(request.scope):
            await self._means.sign_ins.sign_out(cookie)
            self._means.streams.end_where(lambda scope: _cookie_of(scope) == cookie)
        answer = json_answer({"signed_in": False})
        answer.delete_cookie(COOKIE)
        return answer


def _cookie_of(scope: Scope) -> str:
    return cookie_in("; ".join(Headers(scope=scope).getlist("cookie")))
