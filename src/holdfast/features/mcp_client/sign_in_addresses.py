"""Checks the addresses of a sign-in: the server that names them isn't trusted."""

import asyncio
import ipaddress
import socket
from urllib.parse import SplitResult, urlsplit

from holdfast.features.mcp_client.open_call import safe_host
from holdfast.policy.public_addresses import is_public

_RESOLVE_S = 10.0
_PORTS = {"http": 80, "https": 443}


class SignInAddressRefused(Exception):
    """An address that a sign-in does not use; the text says why."""


class SignInAddresses:
    """The rule for one server.

    Its own origin is always allowed: it was configured. Everything else must be https and public, so that a
    server on the internet cannot make us call a machine of the local network. A server that is itself local
    may name others there.
    """

    def __init__(self, server_url: str) -> None:
        self._own = urlsplit(server_url)
        self._is_local: bool | None = None

    def insist_on_safe_link(self, url: str) -> None:
        """Check an address that a person is to open; raises SignInAddressRefused."""
        parts = urlsplit(url)
        if not safe_host(url) or not self._has_safe_scheme(parts):
            raise SignInAddressRefused(f"its sign-in page {url[:200]!r} isn't a plain https URL")

    async def insist_on(self, url: str) -> None:
        """Check an address that we call ourselves; raises SignInAddressRefused."""
        parts = urlsplit(url)
        if _origin(parts) == _origin(self._own):
            return
        place = f"{parts.scheme}://{parts.netloc}"[:200]
        if not safe_host(url) or not self._has_safe_scheme(parts):
            raise SignInAddressRefused(f"its sign-in leads to {place!r}, which isn't an https URL")
        if self._is_local is None:
            self._is_local = not await _is_all_public(self._own.hostname or "")
        if not self._is_local and not await _is_all_public(parts.hostname or ""):
            raise SignInAddressRefused(f"its sign-in leads to {place!r}, which is on a private network")

    def _has_safe_scheme(self, parts: SplitResult) -> bool:
        if parts.scheme == "https" or _origin(parts) == _origin(self._own):
            return True
        return parts.scheme == "http" and all(map(is_loopback_name, (parts.hostname, self._own.hostname)))


def is_loopback_name(host: str | None) -> bool:
    """Whether the name alone says that it is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    try:
        port = parts.port
    except ValueError:
        return ("", "", None)
    return parts.scheme, parts.hostname or "", port or _PORTS.get(parts.scheme)


async def _is_all_public(host: str) -> bool:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        raise SignInAddressRefused(f"its sign-in host {host[:200]!r} can't be resolved") from error
    return bool(found) and all(is_public(ipaddress.ip_address(one[4][0])) for one in found)
