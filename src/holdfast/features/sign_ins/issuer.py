"""The requests to an issuer: signing a person in, renewing tokens, revoking them."""

import asyncio
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.decisions.proxies import proxy_at
from holdfast.features.sign_ins.providers import SignInProvider
from holdfast.features.sign_ins.tokens import ANSWER_S, Tokens, expiry_ms
from holdfast.values import FailureKind

BODY_BYTES_MAX = 256 * 1024
TEXT_CHARS_MAX = 200
GOOD = range(200, 300)
POLL_S, POLL_S_MIN, POLL_S_MAX = 5.0, 0.01, 60.0
SLOWER_S = 5.0  # by so much RFC 8628 slows down polling
SIGN_IN_S = 900.0  # until a code ends whose issuer doesn't say
PENDING = "authorization_pending"
SLOW_DOWN = "slow_down"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
# An issuer's statuses and codes for tokens that it no longer takes.
UNAUTHORIZED = 401
REFUSED_STATUSES = frozenset({403, 404})
REFUSED_CODES = frozenset({"invalid_grant", "invalid_token", "access_denied", "unauthorized_client"})
REFUSED_PREFIX = "refresh_token_"


class TokenUnavailable(Exception):
    """A sign-in can't be used now; the text is for people. `kind` decides about a retry."""

    def __init__(self, text: str, *, kind: FailureKind = "server_error") -> None:
        super().__init__(text)
        self.kind: FailureKind = kind


class IssuerAnswer(Struct, frozen=True):
    """An issuer's answer: its status, and its JSON object or an empty one."""

    status: int
    body: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A field that is text; empty if it isn't."""
        value = self.body.get(name)
        return value if isinstance(value, str) else ""

    def number(self, *names: str) -> float | None:
        """The first of these fields that is a number, or one as text."""
        for name in names:
            try:
                return float(self.body[name])
            except (KeyError, TypeError, ValueError):
                continue
        return None

    @property
    def code(self) -> str:
        """The code of an error, in the shapes that issuers use."""
        error = self.body.get("error")
        if isinstance(error, dict):
            return str(cast("dict[str, object]", error).get("code") or "")
        return str(error or self.body.get("code") or "")

    @property
    def problem(self) -> str:
        """The error for people, on one line."""
        error = self.body.get("error")
        nested = cast("dict[str, object]", error) if isinstance(error, dict) else self.body
        said = nested.get("message") or nested.get("error_description") or self.code
        line = " ".join(str(said).split())[:TEXT_CHARS_MAX]
        return f"{self.status}: {line}" if line else str(self.status)


class DeviceCode(Struct, frozen=True):
    """The code for a person to enter, and the id to poll with."""

    url: str
    user_code: str
    device_id: str
    every_s: float
    lasts_s: float


class Issuer:
    """One issuer. `open_issuer` makes it and closes its connections."""

    def __init__(
        self, session: aiohttp.ClientSession, provider: SignInProvider, *, proxy: str, answer_s: float
    ) -> None:
        self._answer_s = answer_s
        self._session = session
        self._provider = provider
        self._proxy = proxy

    async def device_code(self) -> DeviceCode:
        """Ask for a code that a person enters on the issuer's page."""
        provider = self._provider
        fields = {"client_id": provider.client_id} | ({"scope": provider.scope} if provider.scope else {})
        answer = await self._post(provider.device_url, fields)
        user_code = answer.text("user_code") or answer.text("usercode")
        url = answer.text("verification_uri") or provider.url(provider.verification_url)
        device_id = answer.text(provider.device_id)
        if answer.status not in GOOD or not (user_code and device_id and url):
            raise TokenUnavailable(f"{provider.place} didn't start a sign-in: {answer.problem}")
        every_s = answer.number("interval")
        lasts_s = answer.number("expires_in")
        return DeviceCode(
            url, user_code, device_id, POLL_S if every_s is None else every_s, lasts_s or SIGN_IN_S
        )

    async def signed_in(self, code: DeviceCode, now_ms: Callable[[], int]) -> Tokens:
        """Wait until the person has entered the code; return the tokens."""
        provider, every_s = self._provider, min(max(code.every_s, POLL_S_MIN), POLL_S_MAX)
        fields = {provider.device_id: code.device_id}
        fields |= (
            {"user_code": code.user_code}
            if provider.code_url
            else {"client_id": provider.client_id, "grant_type": DEVICE_GRANT}
        )
        try:
            async with asyncio.timeout(code.lasts_s):
                while True:
                    await asyncio.sleep(every_s)
                    answer = await self._patient_post(provider.poll_url, fields)
                    if answer is None or answer.status in provider.pending or answer.code == PENDING:
                        continue
                    if answer.code == SLOW_DOWN:
                        every_s = min(answer.number("interval") or every_s + SLOWER_S, POLL_S_MAX)
                        continue
                    break
        except TimeoutError:
            raise TokenUnavailable("the code has expired; start again") from None
        if answer.status not in GOOD or answer.code:
            raise TokenUnavailable(f"{provider.place} refused the sign-in: {answer.problem}", kind="auth")
        if provider.code_url:
            answer = await self._exchanged_code(answer)
        return self._taken(answer, Tokens(), now_ms=now_ms())

    async def renewed(self, tokens: Tokens, now_ms: Callable[[], int]) -> Tokens:
        """New tokens for these. Raises TokenUnavailable, of kind `auth` if a person must sign in again."""
        provider = self._provider
        if provider.exchange_url:
            return await self._exchanged_token(tokens, now_ms)
        fields = {"grant_type": "refresh_token", "client_id": provider.client_id}
        headers: dict[str, str] = {}
        if provider.renew_header:
            headers[provider.renew_header] = tokens.refresh_token
        else:
            fields["refresh_token"] = tokens.refresh_token
        answer = await self._post(provider.renew_url, fields, headers=headers)
        self._insist(answer)
        return self._taken(answer, tokens, now_ms=now_ms())

    async def revoke(self, tokens: Tokens) -> None:
        """Revoke the tokens."""
        provider = self._provider
        if provider.revoke_url and tokens.refresh_token:
            hint = {"token": tokens.refresh_token, "token_type_hint": "refresh_token"}
            answer = await self._post(provider.revoke_url, hint | {"client_id": provider.client_id})
            if answer.status not in GOOD:
                raise TokenUnavailable(f"{provider.place} didn't revoke the sign-in: {answer.problem}")

    async def _exchanged_code(self, answer: IssuerAnswer) -> IssuerAnswer:
        provider = self._provider
        fields = {
            "grant_type": "authorization_code",
            "code": answer.text("authorization_code"),
            "redirect_uri": provider.url(provider.redirect_uri),
            "client_id": provider.client_id,
            "code_verifier": answer.text("code_verifier"),
        }
        answer = await self._post(provider.code_url, fields, is_form=True)
        if answer.status not in GOOD:
            raise TokenUnavailable(f"{provider.place} refused the sign-in: {answer.problem}", kind="auth")
        return answer

    async def _exchanged_token(self, tokens: Tokens, now_ms: Callable[[], int]) -> Tokens:
        """A token for the API, in exchange for that of the sign-in, which stays the same."""
        provider = self._provider
        headers = provider.exchange_headers | {"authorization": f"token {tokens.refresh_token}"}
        answer = await self._request("GET", provider.url(provider.exchange_url), headers=headers)
        self._insist(answer)
        if not (access := answer.text("token")):
            raise TokenUnavailable(f"{provider.place} sent no token")
        endpoints = answer.body.get("endpoints")
        named = (
            str(cast("dict[str, object]", endpoints).get("api") or "") if isinstance(endpoints, dict) else ""
        )
        issued_ms = now_ms()
        return replace(
            tokens,
            access_token=access,
            base_url=named.rstrip("/") if provider.may_have_token(named) else "",
            issued_ms=issued_ms,
            expires_ms=expiry_ms(issued_ms, answer.number("refresh_in")),
        )

    def _insist(self, answer: IssuerAnswer) -> None:
        """Raise what a renewal failed of."""
        if answer.status in GOOD:
            return
        place, code = self._provider.place, answer.code.lower()
        is_refused = code in REFUSED_CODES or code.startswith(REFUSED_PREFIX)
        # Without JSON, it's somebody in between.
        if is_refused or answer.status == UNAUTHORIZED or (answer.body and answer.status in REFUSED_STATUSES):
            raise TokenUnavailable(f"{place} no longer accepts the sign-in ({answer.problem})", kind="auth")
        raise TokenUnavailable(f"{place} couldn't renew the sign-in ({answer.problem})")

    def _taken(self, answer: IssuerAnswer, before: Tokens, *, now_ms: int) -> Tokens:
        """The tokens in an answer; what it leaves out stays as it was before."""
        access = answer.text("access_token")
        if not access:
            raise TokenUnavailable(f"{self._provider.place} sent no token")
        if self._provider.exchange_url:
            return replace(before, refresh_token=access)
        life_s = answer.number("expires_in")
        claims = claims_of(access)
        account = self.account_in(answer.text("id_token")) or self.account_in(access) or before.account
        return Tokens(
            access_token=access,
            refresh_token=answer.text("refresh_token") or before.refresh_token,
            account=account,
            issued_ms=now_ms,
            expires_ms=expiry_ms(now_ms, life_s if life_s is not None else life_of(claims)),
        )

    def account_in(self, token: str) -> str:
        """The account that a token is for, if it says."""
        claims = claims_of(token)
        own = claims.get(self._provider.claims)
        nested = cast("dict[str, object]", own) if isinstance(own, dict) else claims
        value = nested.get(self._provider.account_claim) if self._provider.account_claim else None
        return value if isinstance(value, str) else ""

    async def _patient_post(self, url: str, fields: Mapping[str, str]) -> IssuerAnswer | None:
        """None if the issuer can't be reached now, or has an error: polling continues."""
        try:
            answer = await self._post(url, fields)
        except TokenUnavailable:
            return None
        return None if answer.status >= 500 or answer.status == 429 else answer  # noqa: PLR2004  # HTTP's own

    async def _post(
        self,
        url: str,
        fields: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        is_form: bool = False,
    ) -> IssuerAnswer:
        is_form = is_form or self._provider.body == "form"
        media_type = "application/x-www-form-urlencoded" if is_form else "application/json"
        body = urlencode(fields).encode() if is_form else msgspec.json.encode(fields)
        url = self._provider.url(url)
        return await self._request(
            "POST", url, headers={"content-type": media_type} | dict(headers or {}), body=body
        )

    async def _request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> IssuerAnswer:
        place, proxy = self._provider.place, proxy_at(self._proxy)
        login = {"proxy-authorization": proxy.authorization} if proxy and proxy.authorization else None
        try:
            async with (
                asyncio.timeout(self._answer_s),
                self._session.request(
                    method,
                    url,
                    headers={"accept": "application/json", **headers},
                    data=body,
                    allow_redirects=False,
                    proxy=proxy.url if proxy else None,
                    proxy_headers=login,
                ) as response,
            ):
                data = b""
                async for chunk in response.content.iter_any():
                    data += chunk
                    if len(data) > BODY_BYTES_MAX:
                        raise TokenUnavailable(f"{place} sent too much")
                return IssuerAnswer(response.status, _object(data))
        except TimeoutError:
            raise TokenUnavailable(f"no answer from {place} in {self._answer_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TokenUnavailable(f"{place} can't be reached ({type(error).__name__})") from error


@asynccontextmanager
async def open_issuer(
    provider: SignInProvider, *, proxy: str = "", answer_s: float = ANSWER_S
) -> AsyncGenerator[Issuer]:
    """The issuer, until its connections are closed."""
    resolver = aiohttp.AsyncResolver()
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None)
    try:
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "holdfast"},
        ) as session:
            yield Issuer(session, provider, proxy=proxy, answer_s=answer_s)
    finally:
        await resolver.close()


def claims_of(token: str) -> Mapping[str, object]:
    """The claims of a token that is a JWT, unverified; none of any other."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004  # header, claims, signature
        return {}
    try:
        return _object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (NotBase64, ValueError):
        return {}


def life_of(claims: Mapping[str, object]) -> float | None:
    """How long a token with these claims lives, whatever the issuer's clock says."""
    begins, ends = claims.get("iat", claims.get("nbf")), claims.get("exp")
    if isinstance(begins, int | float) and isinstance(ends, int | float):
        return float(ends) - float(begins)
    return None


def _object(data: bytes) -> Mapping[str, object]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
