"""Reverse proxies in front of the server: which ones are trusted, and the path that they serve it under."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network

Headers = list[tuple[bytes, bytes]]
_HOST, _PROTO = b"x-forwarded-host", b"x-forwarded-proto"
_SCHEMES = {b"http": "http", b"https": "https"}
UNIX = "unix"  # any client of the Unix socket


class ReverseProxies:
    """Rewrites requests to what the client asked for. From anyone else, X-Forwarded headers do nothing."""

    def __init__(self, trusted: Iterable[str] = (), mount_path: str = "") -> None:
        names = frozenset(trusted)
        self._networks = tuple(ip_network(one) for one in names - {UNIX})
        self._trusts_unix = UNIX in names
        self._mount = mount_path.encode()
        self.is_trusted = lru_cache(1024)(self._is_trusted)

    def _is_trusted(self, peer: str) -> bool:
        """Whether the address is one of a proxy's; it's empty for a Unix socket."""
        if not peer:
            return self._trusts_unix
        if not self._networks:
            return False
        address = ip_address(peer.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)

    def unmounted(self, url: bytes) -> bytes:
        """Return a request's target without the mount path. Some proxies remove it, others pass it on."""
        rest = url.removeprefix(self._mount)
        if not self._mount or len(rest) == len(url) or rest[:1] not in {b"", b"/", b"?"}:
            return url
        return rest if rest.startswith(b"/") else b"/" + rest

    @staticmethod
    def forwarded(headers: Headers) -> str:
        """Put the host that the proxy was asked for into the headers, and return the scheme if it's known."""
        scheme = ""
        for name, value in headers:
            if name == _PROTO:
                scheme = _SCHEMES.get(_last(value), scheme)
        hosts = [_last(value) for name, value in headers if name == _HOST]
        if hosts:
            headers[:] = [(name, hosts[-1] if name == b"host" else value) for name, value in headers]
        return scheme


def _last(value: bytes) -> bytes:
    """Return what the nearest proxy appended; the values before it may come from the client."""
    return value.rpartition(b",")[2].strip()
