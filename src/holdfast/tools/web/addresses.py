"""Which addresses the web tool may reach: public ones, checked where the connection is made."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa", "onion")
# The registries of special-purpose addresses (IANA, for IPv4 and IPv6) as a whole: what Python knows of them
# differs from version to version.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' own
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's metadata at a public address
        "169.254.0.0/16",  # this link; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112: the nearest node answers, which may be an inner one
        "192.52.193.0/24",  # multicast relays, the nearest too
        "192.88.99.0/24",  # relays to IPv6
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # unspecified, loopback, and IPv4 addresses embedded in it
        "::ffff:0:0/96",  # IPv4 addresses embedded in it
        "64:ff9b::/96",  # NAT64: an IPv4 address embedded in it
        "64:ff9b:1::/48",  # the same of a network's own
        "100::/64",  # discarded
        "100:0:0:1::/64",  # the same, for measurements
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address embedded in it
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",  # multicast
    )
)
# What stands in a name or an address; in particular no percent sign, which may hide another character.
_HOST = re.compile(r"[0-9A-Za-z._:-]{1,253}\Z")
_IPV6_IN_USE = ipaddress.ip_network("2000::/3")


class UrlRefused(Exception):
    """A URL that is not fetched; the text tells the model why."""


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
                f"Port {url.port} is not allowed, only {', '.join(map(str, sorted(self.ports)))}."
            )
        host = (url.raw_host or "").rstrip(".").lower()
        address = spelled_address(host)
        if address is not None:
            if not self.allows(address):
                raise UrlRefused(f"{host} is not a public address.")
        elif "." not in host or any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES):
            raise UrlRefused(f"{host} is not a public name.")

    @override
    def allows(self, address: IPAddress) -> bool:
        return is_public(address)


def insist_on_form(url: URL) -> None:
    """Raise UrlRefused for a URL that no policy allows."""
    if url.scheme not in {"http", "https"}:
        raise UrlRefused(f"Only http and https URLs are fetched, not {url.scheme or 'one without a scheme'}.")
    if not url.raw_host:
        raise UrlRefused("The URL has no host.")
    if not _HOST.fullmatch(url.raw_host):
        raise UrlRefused(f"{url.raw_host} is not a host name.")
    if url.raw_user is not None or url.raw_password is not None:
        raise UrlRefused("A URL with a user name or password is not fetched.")


def is_public(address: IPAddress) -> bool:
    """Whether an address is public."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or address.scope_id is not None:
            return False  # an IPv4 address embedded in it has no business here, even a public one
        if address not in _IPV6_IN_USE:
            return False
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


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
            raise UrlRefused(f"{host} is {addresses}, which is not public.")
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
