"""Sign-in to MCP servers: the SDK's OAuth, with stored tokens, and without a browser.

While a server is used, no person is in front of a browser. So `TokenAuth` sends and renews its tokens, and
otherwise records the server's challenge. `PersonAuth` is for the sign-in command.

The stored sign-in of an MCP server: tokens, the registration, and where to renew them. Each server has its
own file, which only its owner can read. The file's name depends on the server's name and URL, so tokens never
go to another URL, even if the configuration changes.
"""

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec import Struct
from msgspec.structs import replace
from pydantic import AnyUrl, BaseModel, ValidationError
from typing_extensions import override

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.config.settings import McpOAuthSettings
from holdfast.features.mcp_client.sign_in_addresses import SignInAddresses
from holdfast.journal.safe_files import write_whole
from holdfast.redaction import Redactor

BYTES_MAX = 256 * 1024


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """How the server asked for a sign-in: a status and its WWW-Authenticate header."""

    status: int
    header: str = ""


class SignInRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; what the SDK describes is kept as the SDK writes it."""

    url: str = ""
    access_token: str = ""
    refresh_token: str = ""
    scope: str = ""
    expires_at_s: float = 0.0  # 0 if the server does not say
    client: dict[str, object] = {}
    resource: dict[str, object] = {}
    issuer: str = ""
    issuer_metadata: dict[str, object] = {}
    challenge: Challenge | None = None


class SignInFile:
    """The file of one server; reading and writing block."""

    def __init__(self, folder: Path, *, name: str, url: str) -> None:
        digest = hashlib.sha256(f"{name}\0{url}".encode()).hexdigest()
        self.path = folder / f"{digest[:32]}.json"
        self.url = url

    def version(self) -> int:
        """A number that changes when the file does; 0 if there is none."""
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def read(self) -> SignInRecord:
        """Read the stored sign-in; empty if it's missing or unreadable."""
        try:
            with self.path.open("rb") as file:
                record = msgspec.json.decode(file.read(BYTES_MAX + 1), type=SignInRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return SignInRecord(url=self.url)
        return record if record.url == self.url else SignInRecord(url=self.url)

    def change(self, changed: Callable[[SignInRecord], SignInRecord]) -> None:
        """Replace what is kept; a server and a command may do so at the same time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            after = changed(before)
            if after != before:
                write_whole(self.path, msgspec.json.encode(after))
        finally:
            os.close(lock)

    def forget(self) -> bool:
        """Delete it; whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


_ModelT = TypeVar("_ModelT", bound=BaseModel)
SIGN_IN = "holdfast_sign_in"  # marks requests of a sign-in for the transport
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_METADATA_PATH = "/.well-known/oauth-authorization-server"
_HEADER_CHARS_MAX = 4_000
_EARLY_S = 30.0  # so much before its end a token is renewed
_TOKENS_KEPT = 8


class SigningPerson(Protocol):
    """The interactive part of a sign-in: shows the page's URL, and waits until the person returns from it."""

    redirect_uri: str

    async def show(self, url: str) -> None:
        """Show the address to open."""
        ...

    async def came_back(self) -> AuthorizationCodeResult:
        """Return the parameters from the sign-in page."""
        ...


class _Storage(Struct):
    """The SDK's token storage, in our file. `provider` is set before use."""

    file: SignInFile
    config: McpOAuthSettings
    redirect_uri: str
    provider: "_FileAuth | None" = None

    async def get_tokens(self) -> OAuthToken | None:
        record = await asyncio.to_thread(self.file.read)
        if not record.access_token:
            return None
        return OAuthToken(
            access_token=record.access_token,
            refresh_token=record.refresh_token or None,
            scope=record.scope or None,
        )

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires_at_s = time.time() + tokens.expires_in if tokens.expires_in else 0.0
        await self._change(
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            scope=tokens.scope or "",
            expires_at_s=expires_at_s,
            challenge=None,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self.config.client_id:
            return self._configured()
        record = await asyncio.to_thread(self.file.read)
        client = _parsed(OAuthClientInformationFull, record.client)
        # A registration is good for the address that it was made with.
        uris = [str(one) for one in (client.redirect_uris or ())] if client else []
        return client if not self.redirect_uri or self.redirect_uri in uris else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._change(client=_dumped(client_info))

    async def note(self, challenge: Challenge, *, used: str) -> None:
        """Keep how the server asked for a sign-in, unless there are other tokens than it refused."""
        await asyncio.to_thread(
            self.file.change,
            lambda kept: replace(kept, challenge=challenge) if kept.access_token == used else kept,
        )

    async def _change(self, **fields: Any) -> None:
        assert self.provider is not None, "it is set before use"
        context = self.provider.context
        fields["issuer"] = context.auth_server_url or ""
        fields["resource"] = _dumped(context.protected_resource_metadata)
        fields["issuer_metadata"] = _dumped(context.oauth_metadata)
        await asyncio.to_thread(self.file.change, lambda kept: replace(kept, **fields))

    def _configured(self) -> OAuthClientInformationFull:
        method = "client_secret_basic" if self.config.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=self.config.client_id,
            client_secret=str(self.config.client_secret) or None,
            token_endpoint_auth_method=method,
            redirect_uris=[AnyUrl(self.redirect_uri)] if self.redirect_uri else None,
            issuer=self.config.issuer or None,
        )


class _FileAuth(OAuthClientProvider):
    """The SDK's provider with its state in our file."""

    def __init__(self, config: McpServerConfig, file: SignInFile, *, person: SigningPerson | None) -> None:
        wanted = config.oauth or McpOAuthSettings()
        redirect_uri = person.redirect_uri if person else ""
        self.storage = _Storage(file, wanted, redirect_uri)
        super().__init__(
            config.url,
            OAuthClientMetadata(
                client_name="Holdfast",
                redirect_uris=[AnyUrl(redirect_uri or "http://127.0.0.1/callback")],
                scope=wanted.scope or None,
            ),
            self.storage,
            redirect_handler=self._shown if person else None,
            callback_handler=person.came_back if person else None,
            client_metadata_url=wanted.client_metadata_url or None,
        )
        self.storage.provider = self
        self.addresses = SignInAddresses(config.url)
        self._file = file
        self._person = person
        self._seen: dict[str, None] = {}  # the newest tokens

    async def _shown(self, url: str) -> None:
        assert self._person is not None, "nobody else is shown anything"
        self.addresses.insist_on_safe_link(url)
        metadata = self.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            # Without PKCE, anyone who intercepts the code can use it.
            raise OAuthFlowError("its authorization server doesn't list PKCE with S256 in its metadata")
        await self._person.show(url)

    @override
    async def _initialize(self) -> None:
        await super()._initialize()
        record = await asyncio.to_thread(self._file.read)
        context = self.context
        context.token_expiry_time = record.expires_at_s - _EARLY_S if record.expires_at_s else None
        context.auth_server_url = record.issuer or None
        context.protected_resource_metadata = _parsed(ProtectedResourceMetadata, record.resource)
        context.oauth_metadata = _parsed(OAuthMetadata, record.issuer_metadata)
        self.note_tokens()

    def note_tokens(self) -> None:
        """Remember the tokens in use, so that `redacted` knows them."""
        tokens = self.context.current_tokens
        for secret in (tokens.access_token, tokens.refresh_token) if tokens else ():
            if secret:
                self._seen.pop(secret, None)
                self._seen[secret] = None
        while len(self._seen) > _TOKENS_KEPT:
            del self._seen[next(iter(self._seen))]

    def redacted(self, data: bytes) -> bytes:
        """Remove our tokens from a server's text."""
        return Redactor(self._seen).redact_bytes(data) if self._seen else data


class TokenAuth(_FileAuth):
    """Sends the tokens of the file, and renews them; it never asks anybody."""

    def __init__(self, config: McpServerConfig, file: SignInFile) -> None:
        super().__init__(config, file, person=None)
        self._version = -1
        self._renewing = asyncio.Lock()

    @override
    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        # Not the SDK's flow: it sends one request at a time, so a slow call would hold up all others.
        await self._load()
        if not self.context.is_token_valid() and self.context.can_refresh_token():
            async with self._renewing:
                if (renewal := await self._renewal("")) is not None:
                    await self._take((yield renewal))
        token = self._add_token(request)
        response = yield request
        if response.status_code == _UNAUTHORIZED and (used := token):
            async with self._renewing:
                if (renewal := await self._renewal(used)) is not None:
                    await self._take((yield renewal))
            token = self._add_token(request)
            # The last answer is the one that counts, so it must be one to this request.
            if renewal is not None or token not in {"", used}:
                response = yield request
        if _is_challenge(response):
            header = response.headers.get("www-authenticate", "")[:_HEADER_CHARS_MAX]
            await self.storage.note(Challenge(status=response.status_code, header=header), used=token)

    async def _load(self) -> None:
        version = await asyncio.to_thread(self._file.version)
        if version != self._version:
            self._version = version
            await self._initialize()

    def _add_token(self, request: httpx2.Request) -> str:
        tokens = self.context.current_tokens
        if tokens is None or not self.context.is_token_valid():
            request.headers.pop("authorization", None)
            return ""
        self._add_auth_header(request)
        return tokens.access_token

    async def _renewal(self, used: str) -> httpx2.Request | None:
        """The request that renews the tokens; None if that is not possible, or was done by somebody else."""
        await self._load()
        tokens = self.context.current_tokens
        if tokens is None or not self.context.can_refresh_token():
            return None
        if tokens.access_token != used and self.context.is_token_valid():
            return None
        request = await self._refresh_token()
        request.extensions[SIGN_IN] = True
        return request

    async def _take(self, response: httpx2.Response) -> None:
        await response.aread()
        await self._handle_refresh_response(response)
        self._version = -1  # another process may have renewed them; then the file has the new ones
        await self._load()


class PersonAuth(_FileAuth):
    """Signs a person in, from the first request on if the server is known to want it."""

    def __init__(self, config: McpServerConfig, file: SignInFile, *, person: SigningPerson) -> None:
        super().__init__(config, file, person=person)
        self.signed_in = False
        self._issuer = ""
        self._record: SignInRecord | None = None

    @override
    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._record is None:
            self._record = await asyncio.to_thread(self._file.read)
        challenge, self._record = self._record.challenge, replace(self._record, challenge=None)
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is request and challenge is not None:
                    headers = {"www-authenticate": challenge.header} if challenge.header else {}
                    response = httpx2.Response(challenge.status, headers=headers, request=request)
                    challenge = None
                else:
                    if outgoing is not request:
                        outgoing.extensions[SIGN_IN] = True
                    response = yield outgoing
                try:
                    outgoing = await flow.asend(response)
                except OAuthFlowError:
                    if not await self._found_issuer(response):
                        raise
                    flow = super().async_auth_flow(request)
                    outgoing, challenge = await anext(flow), Challenge(status=_UNAUTHORIZED)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _found_issuer(self, response: httpx2.Response) -> bool:
        """Whether this is metadata of the first revision with OAuth, whose issuer the SDK does not expect.

        Such a server is its own authorization server. The SDK then expects the bare origin as its name; any
        name within the server's own origin is as good.
        """
        own, asked = httpx2.URL(self.context.server_url), response.request.url
        if self._issuer or self.context.auth_server_url or asked.path != _METADATA_PATH:
            return False
        metadata = _parsed(OAuthMetadata, msgspec.json.decode(await response.aread(), type=dict[str, object]))
        named = httpx2.URL(str(metadata.issuer)) if metadata else asked
        if any((one.scheme, one.netloc) != (own.scheme, own.netloc) for one in (asked, named)):
            return False
        self._issuer = str(named)
        return True

    @override
    def _expected_issuer(self) -> str:
        if self._issuer and not self.context.auth_server_url:
            return self._issuer
        return super()._expected_issuer()

    @override
    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        self.note_tokens()
        self.signed_in = True


def _is_challenge(response: httpx2.Response) -> bool:
    if response.status_code == _UNAUTHORIZED:
        return True
    error = extract_field_from_www_auth(response, "error")
    return response.status_code == _FORBIDDEN and error == "insufficient_scope"


def wants_sign_in(name: str, response: httpx2.Response) -> str:
    """Return the hint to sign in; empty if the server doesn't need it."""
    if not _is_challenge(response):
        return ""
    if response.status_code == _FORBIDDEN:
        scope = extract_field_from_www_auth(response, "scope") or ""
        more = f" ({scope[:200]})" if scope.isprintable() and scope else ""
        return f"it needs more permissions{more}; run `holdfast mcp-sign-in {name}` to grant them"
    return f"it needs you to sign in; run `holdfast mcp-sign-in {name}`"


def _dumped(model: BaseModel | None) -> dict[str, object]:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else {}


def _parsed(kind: type[_ModelT], data: dict[str, object]) -> _ModelT | None:
    try:
        return kind.model_validate(data) if data else None
    except ValidationError:
        return None
