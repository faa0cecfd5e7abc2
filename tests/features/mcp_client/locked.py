"""A server that wants a sign-in, with its authorization server, inside the test; it misbehaves as told."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web
from mcp.shared.auth import AuthorizationCodeResult

from features.mcp_client.web import Web
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.server import ServerPlace
from holdfast.features.mcp_client.sign_in import read_redirect


@dataclass
class Locked(Web):
    """The server; `metadata` and `resource` replace what it says of itself."""

    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])
    scope: str = "read"
    tokens: int = 0
    revoked: int = 0  # the number of a token that is no longer taken
    expires_in: int = 3600
    asked: list[str] = field(default_factory=list[str])  # paths
    grants: list[dict[str, list[str]]] = field(default_factory=list[dict[str, list[str]]])
    refuse_renewal: bool = False

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    def config(self, **more: Any) -> McpServerConfig:
        return McpServerConfig(name="locked", url=self.url, **more)

    async def guarded(self, request: web.Request) -> web.StreamResponse:
        """The server itself, behind the lock."""
        wanted = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource"'
        is_known = request.headers.get("authorization") == f"Bearer access-token-{self.tokens}"
        if not is_known or self.revoked == self.tokens:
            return web.Response(status=401, headers={"www-authenticate": f'{wanted}, scope="{self.scope}"'})
        if request.method == "POST" and self.wish == "more" and b"tools/call" in await request.read():
            more = f'{wanted}, error="insufficient_scope", scope="write"'
            return web.Response(status=403, headers={"www-authenticate": more})
        return await self.answer(request)

    async def said(self, request: web.Request) -> web.StreamResponse:
        """What it says of itself."""
        self.asked.append(request.path)
        if "protected-resource" in request.path:
            plain = {"resource": self.url, "authorization_servers": [self.origin]}
            return web.json_response({**plain, **self.resource})
        plain = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        return web.json_response({**plain, **self.metadata})

    async def register(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        return web.json_response({**await request.json(), "client_id": "client-1"}, status=201)

    async def token(self, request: web.Request) -> web.StreamResponse:
        given = parse_qs(await request.text())
        self.grants.append(given)
        if given["grant_type"] == ["refresh_token"]:
            is_newest = given["refresh_token"] == [f"refresh-token-{self.tokens}"]
            if self.refuse_renewal or not is_newest:
                return web.json_response({"error": "invalid_grant"}, status=400)
        self.tokens += 1
        return web.json_response(
            {
                "access_token": f"access-token-{self.tokens}",
                "refresh_token": f"refresh-token-{self.tokens}",
                "token_type": "Bearer",
                "expires_in": self.expires_in,
            }
        )


@dataclass
class Visitor:
    """A person who opens the page and comes back, with what `changed` adds or replaces."""

    changed: dict[str, str] = field(default_factory=dict[str, str])
    shown: list[str] = field(default_factory=list[str])
    redirect_uri: str = "http://127.0.0.1:39998/callback"

    async def show(self, url: str) -> None:
        self.shown.append(url)

    async def came_back(self) -> AuthorizationCodeResult:
        given = parse_qs(urlsplit(self.shown[-1]).query)
        back = {"code": "code-1", "state": given["state"][0], **self.changed}
        return read_redirect(f"{self.redirect_uri}?{urlencode(back)}")


@asynccontextmanager
async def locked(at: Locked) -> AsyncGenerator[Locked]:
    """Serve it on a port of its own."""
    app = web.Application()
    app.router.add_route("*", "/mcp", at.guarded)
    app.router.add_get("/.well-known/{kind:.*}", at.said)
    app.router.add_post("/register", at.register)
    app.router.add_post("/token", at.token)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    at.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    try:
        yield at
    finally:
        at.gate.set()
        await runner.cleanup()


def place(folder: Path) -> ServerPlace:
    return ServerPlace(workspace=folder, sign_ins=folder / "sign-ins")


def kept(folder: Path) -> dict[str, Any]:
    """The one file of a sign-in."""
    (file,) = (folder / "sign-ins").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    return json.loads(file.read_text())
