"""The addresses that the web tool can reach: public ones, checked where the connection is made."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from holdfast.policy.public_addresses import IPAddress, is_public

_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa", "onion")
# Characters of a name or an address; no percent sign, which can hide another character.
_HOST = re.compile(r"[0-9A-Za-z._:-]{1,253}\Z")


class UrlRefused(Exception):
    """A URL that is not fetched; the text tells the model why."""


class AddressRefused(UrlRefused):
    """A URL whose host has no address that may be reached; the text says which it has."""


class AddressPolicy(Protocol):
    """Says which hosts, ports and addresses may be reached."""

    def insist_on_url(self, url: URL) -> None:
        """Raise UrlRefused for what the URL alone shows."""
        ...

    def allows(self, address: IPAddress) -> bool:
        """Whether a connection to this address may be made."""
        ...


@dataclass(frozen=True, slots=True)
class PublicOnly(AddressPolicy):
    """The default: public addresses, http and https, standard ports."""

    ports: frozenset[int] = frozenset({80, 443})

    @override
    def insist_on_url(self, url: URL) -> None:
        insist_on_form(url)
        if url.port not in self.ports:
            raise UrlRefused(
                f"Port {url.port} isn't allowed, only {', '.join(map(str, sorted(self.ports)))}."
            )
        host = (url.raw_host or "").rstrip(".").lower()
        address = spelled_address(host)
        if address is not None:
            if not self.allows(address):
                raise UrlRefused(f"{host} isn't a public address.")
        elif "." not in host or any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES):
            raise UrlRefused(f"{host} isn't a public name.")

    @override
    def allows(self, address: IPAddress) -> bool:
        return is_public(address)


def insist_on_form(url: URL) -> None:
    """Raise UrlRefused for a URL that no policy allows."""
    if url.scheme not in {"http", "https"}:
        raise UrlRefused(
            f"Only http and https URLs can be fetched, not {url.scheme or 'one without a scheme'}."
        )
    if not url.raw_host:
        raise UrlRefused("The URL has no host.")
    if not _HOST.fullmatch(url.raw_host):
        raise UrlRefused(f"{url.raw_host} isn't a host name.")
    if url.raw_user is not None or url.raw_password is not None:
        raise UrlRefused("URLs with a user name or password can't be fetched.")


def spelled_address(host: str) -> IPAddress | None:
    """The address that a host is, in any spelling that resolvers accept: 127.1, 0x7f000001, 017700000001."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        pass  # no spelling of today's
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


class CheckedResolver(AbstractResolver):
    """Hands out only addresses that the policy allows; the connection is made to these very addresses.

    So it does not matter what DNS returns the next time.
    """

    def __init__(self, inner: AbstractResolver, policy: AddressPolicy) -> None:
        self._inner = inner
        self._policy = policy

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        allowed = [one for one in found if self._allows(one["host"])]
        if not allowed:
            addresses = ", ".join(_few(one["host"] for one in found)) or "no address"
            raise AddressRefused(f"{host} resolves to {addresses}, which isn't public.")
        return allowed

    @override
    async def close(self) -> None:
        await self._inner.close()

    def _allows(self, text: str) -> bool:
        try:
            return self._policy.allows(ipaddress.ip_address(text))
        except ValueError:
            return False


def _few(items: Iterable[str]) -> list[str]:
    return list(items)[:3]
