"""The hosts that a sandboxed command can connect to, by name.

- `pypi.example` is that host on the ports 80 and 443, `pypi.example:8443` on this port alone.
- `*.example` is every host below `example`, but not `example` itself.
- `10.1.2.3` and `10.0.0.0/8` are addresses that are not public and may be reached all the same, directly or
  by a name that is listed. Every other address must be public.
"""

import ipaddress
import re
from collections.abc import Iterable

from msgspec import Struct

from holdfast.policy.public_addresses import IPAddress, is_public

PORTS = frozenset((80, 443))
EVERY_HOST = "*"
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*")
_NETWORK = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORT_MAX = 65_535


class BadHost(ValueError):
    """An entry of the list that is neither a host nor an address; the text says why."""


class _NamedHost(Struct, frozen=True):
    name: str  # with "*." in front for everything below it
    port: int = 0  # 0: the usual ones

    def fits(self, host: str, port: int) -> bool:
        below = self.name.startswith("*.") and host.endswith(self.name[1:])
        at_port = port == self.port if self.port else port in PORTS
        return at_port and (below or host == self.name)


class HostRules(Struct, frozen=True):
    """The list of hosts; without entries, it allows none."""

    names: tuple[_NamedHost, ...] = ()
    networks: tuple[tuple[_NETWORK, int], ...] = ()

    def allows(self, host: str, port: int) -> bool:
        """Whether a host may be connected to, as far as its name says."""
        address = _address(host)
        if address is not None:
            return self._listed(address, port)
        return any(each.fits(plain_name(host), port) for each in self.names)

    def may_reach(self, address: IPAddress, port: int) -> bool:
        """Whether a connection to this address may be made, once its name was allowed."""
        return is_public(address) or self._listed(address, port)

    def _listed(self, address: IPAddress, port: int) -> bool:
        return any(
            address.version == network.version and address in network and only in {0, port}
            for network, only in self.networks
        )


def host_rules(entries: Iterable[str]) -> HostRules:
    """The rules that a list of texts means; raises BadHost."""
    names: list[_NamedHost] = []
    networks: list[tuple[_NETWORK, int]] = []
    for entry in entries:
        host, port = _split(entry.strip())
        if (network := _network(host)) is not None:
            networks.append((network, port))
            continue
        name = plain_name(host)
        if not _NAME.fullmatch(name.removeprefix("*.")) or _is_numeric(name):
            raise BadHost(f"{entry!r} is not a host. Write it like pypi.example, *.example or 10.0.0.0/8.")
        names.append(_NamedHost(name, port))
    return HostRules(tuple(names), tuple(networks))


def plain_name(host: str) -> str:
    """A host name in the spelling that is compared."""
    return host.lower().rstrip(".")


def is_host(host: str) -> bool:
    """Whether a text is the name or the address of one host."""
    if _address(host) is not None:
        return True
    return _NAME.fullmatch(plain_name(host)) is not None and not _is_numeric(host)


def _split(entry: str) -> tuple[str, int]:
    """Host and port of an entry; an IPv6 address with a port stands in brackets."""
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", entry)
    plain = re.fullmatch(r"([^:\[\]]*):(\d{1,5})", entry)
    found = bracketed or plain
    if found is None:
        return entry, 0
    port = int(found[2] or 0)
    if found[2] and not 0 < port <= _PORT_MAX:
        raise BadHost(f"{entry!r} has no valid port.")
    return found[1], port


def _network(text: str) -> _NETWORK | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _address(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _is_numeric(name: str) -> bool:
    """Whether a resolver may take a name for an address: 127.1, 0x7f000001."""
    last = plain_name(name).rpartition(".")[2]
    return last.isdigit() or last.startswith("0x")
