"""Signs a person in to an MCP server: one connection with somebody in front of a browser."""

import asyncio
from contextlib import AsyncExitStack
from typing import cast
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Struct

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.connection import McpConnection
from holdfast.features.mcp_client.flow import NOT_STREAMABLE
from holdfast.features.mcp_client.http import SignInFailed, http_wire, sse_wire
from holdfast.features.mcp_client.oauth import PersonAuth, SigningPerson
from holdfast.features.mcp_client.server import ServerPlace, error_code, error_text
from holdfast.features.mcp_client.sign_in_addresses import is_loopback_name

URL_CHARS_MAX = 8_000


class SignInDone(Struct, frozen=True, kw_only=True):
    """The result of a sign-in."""

    tools: int
    asked: bool  # whether the server wanted a sign-in at all


async def sign_in(
    config: McpServerConfig, *, place: ServerPlace, person: SigningPerson, within_s: float
) -> SignInDone:
    """Sign in and list the tools; raises SignInFailed."""
    file = place.sign_in_file(config)
    if file is None:
        raise SignInFailed("it has no url, or its headers already include Authorization")
    parts = urlsplit(config.url)
    if parts.scheme != "https" and not is_loopback_name(parts.hostname):
        raise SignInFailed("its url isn't https, so tokens could be intercepted")
    auth = PersonAuth(config, file, person=person)
    wires = [sse_wire] if config.transport == "sse" else [http_wire]
    if config.transport == "auto":
        wires.append(sse_wire)
    for wire in wires:
        connection = McpConnection(config, workspace=place.workspace)
        try:
            async with asyncio.timeout(within_s), AsyncExitStack() as stack:
                opened = wire(config, lost=connection.end, auth=auth)
                incoming, outgoing = await stack.enter_async_context(opened)
                tools = await connection.enter(stack, incoming=incoming, outgoing=outgoing)
                return SignInDone(tools=len(tools), asked=auth.signed_in)
        except TimeoutError as error:
            raise SignInFailed(f"it wasn't completed within {within_s:g} s") from error
        except Exception as error:
            if error_code(error) == NOT_STREAMABLE and wire is not wires[-1]:
                continue
            raise SignInFailed(connection.over or error_text(error)) from error
    raise AssertionError("the last wire returns or raises")


def read_redirect(url: str) -> AuthorizationCodeResult:
    """Parse the parameters of the redirect; raises SignInFailed."""
    if len(url) > URL_CHARS_MAX:
        raise SignInFailed("the URL is too long")
    try:
        given = parse_qs(urlsplit(url.strip()).query)
    except ValueError as error:
        raise SignInFailed("invalid URL") from error
    if "error" in given:
        text = " ".join([given["error"][0], *given.get("error_description", [])])
        shown = "".join(one for one in text[:300] if one.isprintable())
        raise SignInFailed(f"the sign-in page returned an error: {shown}")
    if "code" not in given:
        raise SignInFailed("the URL has no code; copy it after you've signed in")
    return AuthorizationCodeResult(
        code=given["code"][0], state=given.get("state", [None])[0], iss=given.get("iss", [None])[0]
    )


def registered_port(config: McpServerConfig, place: ServerPlace) -> int:
    """The port that an earlier sign-in registered to come back to, or 0; reads a file."""
    file = place.sign_in_file(config)
    uris = file.read().client.get("redirect_uris") if file else None
    if not isinstance(uris, list) or not uris:
        return 0
    try:
        return urlsplit(str(cast("list[object]", uris)[0])).port or 0
    except ValueError:
        return 0


__all__ = ["SignInDone", "SignInFailed", "read_redirect", "registered_port", "sign_in"]
