"""A fake of the issuers that people sign in to (OpenAI, GitHub, Nous), and of the Codex backend.

It follows the protocols as openai/codex, anomalyco/opencode and NousResearch/hermes-agent use them: each
refresh token works once, and one that is used again ends the whole sign-in.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web
from msgspec import Struct, field

from fakes.exchanges import Exchange, PlatformStep, broken, played
from holdfast.chaos import Say, Script, SeenRequest, Status

ACCOUNT = "acc-0f3c"
CLIENTS = {"app_EMoamEEZ73f0CkXaXp7hrann", "Iv1.b507a08c87ecfe98", "hermes-cli"}


class AnswerJson(Struct, frozen=True):
    """Answer with this instead of what was asked for."""

    status: int
    body: Mapping[str, object]

    async def perform(self, exchange: Exchange) -> None:
        """Set the answer."""
        exchange.answer, exchange.status = self.body, self.status


class Refusal(Exception):
    """An error of the issuer."""

    def __init__(self, status: int, body: Mapping[str, object]) -> None:
        super().__init__(status)
        self.status, self.body = status, body


def refused(code: str, status: int = 400) -> Refusal:
    """An error as RFC 6749 has it."""
    return Refusal(status, {"error": code, "error_description": f"because of {code}"})


class Session(Struct):
    """One sign-in: its newest refresh token, those that were used, and its access tokens."""

    refresh_token: str
    spent: set[str] = field(default_factory=set[str])
    access: list[str] = field(default_factory=list[str])
    is_revoked: bool = False


class FakeIssuer:
    """An issuer on loopback; an async context manager. `scripts` are played before the answers, by path."""

    def __init__(self, *, life_s: int = 864_000, ahead_s: int = 0) -> None:
        self.life_s = life_s
        self.ahead_s = ahead_s  # by how much its clock is wrong
        self.approved = False  # whether the person has entered the code
        self.sessions: list[Session] = []
        self.requests: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []  # path, fields and headers
        self.scripts: dict[str, list[Sequence[PlatformStep]]] = {}
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def sign_in(self) -> Session:
        """A sign-in that a person has made elsewhere."""
        session = Session(f"rt_{token_hex(12)}")
        session.access.append(self._access_token())
        self.sessions.append(session)
        return session

    def accepts(self, access_token: str) -> bool:
        """Whether the token is the newest of a sign-in."""
        return any(not one.is_revoked and one.access[-1:] == [access_token] for one in self.sessions)

    def asked(self, path: str) -> list[Mapping[str, str]]:
        """The fields of the requests to a path."""
        return [fields for seen, fields, _ in self.requests if seen == path]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        path = request.path
        is_json = request.content_type == "application/json"
        fields: dict[str, str] = msgspec.json.decode(raw) if is_json and raw else dict(await request.post())  # pyright: ignore[reportAssignmentType]
        self.requests.append((path, fields, dict(request.headers)))
        exchange = Exchange(accept=lambda: self._carry_out(path, fields, request.headers))
        steps = self.scripts.get(path)
        try:
            await played(steps.pop(0) if steps else (), exchange)
        except Refusal as error:
            return web.json_response(error.body, status=error.status)
        if (response := broken(exchange, request)) is not None:
            return response
        return web.json_response(exchange.answer, status=exchange.status)

    async def _carry_out(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str]
    ) -> Mapping[str, object]:
        handlers: Mapping[str, Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, object]]] = {
            "/api/accounts/deviceauth/usercode": self._user_code,
            "/api/accounts/deviceauth/token": self._openai_poll,
            "/oauth/token": self._token,
            "/oauth/revoke": self._revoke,
            "/login/device/code": self._device_code,
            "/login/oauth/access_token": self._github_poll,
            "/copilot_internal/v2/token": self._copilot_token,
            "/api/oauth/device/code": self._device_code,
            "/api/oauth/token": self._nous_token,
        }
        if path not in handlers:
            raise Refusal(404, {"error": "not_found"})
        if "client_id" in fields and fields["client_id"] not in CLIENTS:
            raise refused("invalid_client", 401)
        return handlers[path](fields, headers)

    def _user_code(self, fields: Mapping[str, str], _: Mapping[str, str]) -> Mapping[str, object]:
        if set(fields) != {"client_id"}:
            raise refused("invalid_request")
        return {"device_auth_id": "dev-1", "user_code": "ABCD-EFGH", "interval": "0"}

    def _openai_poll(self, fields: Mapping[str, str], _: Mapping[str, str]) -> Mapping[str, object]:
        if fields != {"device_auth_id": "dev-1", "user_code": "ABCD-EFGH"}:
            raise refused("invalid_request")
        if not self.approved:
            raise Refusal(403, {"error": {"code": "deviceauth_authorization_unknown"}})
        return {"authorization_code": "code-1", "code_challenge": "challenge", "code_verifier": "verifier"}

    def _token(self, fields: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, object]:
        if fields.get("grant_type") == "authorization_code":
            is_right = fields["code"] == "code-1" and fields["code_verifier"] == "verifier"
            if not is_right or fields["redirect_uri"] != f"{self.url}/deviceauth/callback":
                raise refused("invalid_grant")
            return self._issued(self.sign_in())
        if headers["content-type"] != "application/json":
            raise refused("invalid_request")
        return self._refreshed(fields["refresh_token"], 401)

    def _refreshed(self, refresh_token: str, status: int) -> Mapping[str, object]:
        for session in self.sessions:
            if refresh_token in session.spent:
                session.is_revoked = True
                raise Refusal(status, {"error": {"code": "refresh_token_reused", "message": "already used"}})
            if refresh_token == session.refresh_token:
                if session.is_revoked:
                    raise Refusal(
                        status, {"error": {"code": "refresh_token_invalidated", "message": "revoked"}}
                    )
                session.spent.add(refresh_token)
                session.refresh_token = f"rt_{token_hex(12)}"
                session.access.append(self._access_token())
                return self._issued(session)
        raise refused("invalid_grant", status)

    def _revoke(self, fields: Mapping[str, str], _: Mapping[str, str]) -> Mapping[str, object]:
        for session in self.sessions:
            session.is_revoked |= session.refresh_token == fields["token"]
        return {}

    def _device_code(self, fields: Mapping[str, str], _: Mapping[str, str]) -> Mapping[str, object]:
        if not fields.get("scope"):
            raise refused("invalid_scope")
        return {
            "device_code": "dev-1",
            "user_code": "ABCD-EFGH",
            "verification_uri": f"{self.url}/device",
            "verification_uri_complete": f"{self.url}/device?code=ABCD-EFGH",
            "interval": 0,
            "expires_in": 900,
        }

    def _approved(self, fields: Mapping[str, str]) -> None:
        if (fields.get("device_code"), fields.get("grant_type")) != (
            "dev-1",
            "urn:ietf:params:oauth:grant-type:device_code",
        ):
            raise refused("invalid_request")

    def _github_poll(self, fields: Mapping[str, str], _: Mapping[str, str]) -> Mapping[str, object]:
        """GitHub answers its errors with 200."""
        self._approved(fields)
        if not self.approved:
            return {"error": "authorization_pending"}
        return {"access_token": self.sign_in().refresh_token, "token_type": "bearer", "scope": "read:user"}

    def _copilot_token(self, _: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, object]:
        if not headers.get("editor-version"):
            raise Refusal(400, {"message": "missing Editor-Version header"})
        for session in self.sessions:
            if headers["authorization"] == f"token {session.refresh_token}" and not session.is_revoked:
                session.access.append(f"tid={token_hex(8)};exp=1;sku=free")
                return {
                    "token": session.access[-1],
                    "expires_at": 1 + self.ahead_s,
                    "refresh_in": self.life_s,
                    "endpoints": {"api": self.url},
                }
        raise Refusal(401, {"message": "Bad credentials"})

    def _nous_token(self, fields: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, object]:
        if fields.get("grant_type") == "refresh_token":
            if "refresh_token" in fields:
                raise refused("invalid_request")
            return self._refreshed(headers["x-nous-refresh-token"], 400)
        self._approved(fields)
        if not self.approved:
            raise refused("authorization_pending")
        return self._issued(self.sign_in())

    def _issued(self, session: Session) -> Mapping[str, object]:
        return {
            "access_token": session.access[-1],
            "refresh_token": session.refresh_token,
            "id_token": _jwt({"https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT}}),
            "token_type": "Bearer",
        }

    def _access_token(self) -> str:
        now_s = 1_700_000_000 + self.ahead_s
        return _jwt({"iat": now_s, "exp": now_s + self.life_s, "jti": token_hex(8)})


def _jwt(claims: Mapping[str, object]) -> str:
    header, body = (
        urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=")
        for part in ({"alg": "none", "typ": "JWT"}, claims)
    )
    return f"{header}.{body}.c2lnbmF0dXJl"


class CodexBackend:
    """Chooses the scripts of a ChaosServer that is the Codex backend: it makes the backend's checks first."""

    def __init__(self, issuer: FakeIssuer, *scripts: Script) -> None:
        self.issuer = issuer
        self.scripts = list(scripts)
        self.refusals: list[str] = []

    def __call__(self, request: SeenRequest) -> Script:
        body: dict[str, Any] = dict(request.body or {})
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.issuer.accepts(token):
            return self._refuse(401, "Provided authentication token is expired. Please try signing in again.")
        if request.headers.get("chatgpt-account-id") != ACCOUNT:
            return self._refuse(403, "the account header is missing")
        if body.get("store") is not False:
            return self._refuse(400, "Store must be set to false")
        if body.get("stream") is not True:
            return self._refuse(400, "Stream must be set to true")
        if not body.get("instructions"):
            return self._refuse(400, "Instructions are required")
        if unknown := {"max_output_tokens", "temperature", "top_p"} & set(body):
            return self._refuse(400, f"Unsupported parameter: {unknown.pop()}")
        return self.scripts.pop(0) if self.scripts else [Say("hello")]

    def _refuse(self, status: int, detail: str) -> Script:
        self.refusals.append(detail)
        return [Status(status, body=msgspec.json.encode({"detail": detail}).decode())]
