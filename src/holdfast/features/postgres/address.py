"""The address of a database, read from a `postgresql://` URL.

The library can read such a URL, too. But it looks for password and certificate files each time it connects,
and that would block the event loop.
"""

import asyncio
import ssl
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct, field

from holdfast.interfaces.journal import StoreFailed

_LOCAL = {"localhost", "127.0.0.1", "::1"}
_TLS_MODES = {"require", "verify-ca", "verify-full"}


class DatabaseAddress(Struct):
    """Where the database is, and who connects to it."""

    hosts: list[str]
    ports: list[int]
    user: str
    password: str
    database: str
    sslmode: str
    sslrootcert: str | None = None
    target_session_attrs: str = "any"
    has_prepared_statements: bool = False  # of a pooler in between, see Database
    settings: dict[str, str] = field(default_factory=dict[str, str])
    _context: ssl.SSLContext | None = None

    @classmethod
    def parse(cls, dsn: str) -> "DatabaseAddress":
        """Read a URL; raises StoreFailed if it is not one of a database.

        Without `sslmode`, connections are encrypted unless the database is on this machine.
        """
        parts = urlsplit(dsn)
        if parts.scheme not in {"postgresql", "postgres"}:
            raise StoreFailed(f"{parts.scheme or dsn!r} is not the beginning of a postgresql:// address")
        user_info, _, places = parts.netloc.rpartition("@")
        user, _, password = user_info.partition(":")
        options = dict(parse_qsl(parts.query))
        hosts: list[str] = []
        ports: list[int] = []
        for place in (options.pop("host", "") or unquote(places) or "localhost").split(","):
            host, _, port = place.rpartition(":") if _has_port(place) else (place, "", "")
            hosts.append(host.strip("[]"))
            try:
                ports.append(int(port or options.get("port", "5432")))
            except ValueError:
                raise StoreFailed(f"{port!r} in the database's address is not a port") from None
        options.pop("port", None)
        is_local = all(host in _LOCAL or host.startswith("/") for host in hosts)
        user = unquote(user) or options.pop("user", "") or "postgres"
        return cls(
            hosts,
            ports,
            user,
            unquote(password) or options.pop("password", ""),
            unquote(parts.path.lstrip("/")) or options.pop("dbname", "") or user,
            options.pop("sslmode", "disable" if is_local else "require"),
            options.pop("sslrootcert", None),
            options.pop("target_session_attrs", "any" if len(hosts) == 1 else "read-write"),
            options.pop("pooler_prepared_statements", "off") == "on",
            options,
        )

    async def arguments(self) -> dict[str, Any]:
        """What the library's `connect` needs."""
        if self.sslmode in _TLS_MODES and self._context is None:
            self._context = await asyncio.to_thread(partial(_tls, self.sslmode, self.sslrootcert))
        return {
            "host": self.hosts,
            "port": self.ports,
            "user": self.user,
            "password": self.password,  # never None, which would mean to look for a file
            "database": self.database,
            "ssl": self._context or False,
            "target_session_attrs": self.target_session_attrs,
        }


def _has_port(place: str) -> bool:
    return ":" in place.rpartition("]")[2] and not place.startswith("/")


def _tls(mode: str, root_certificate: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=root_certificate)
    context.check_hostname = mode == "verify-full"
    if mode == "require" and root_certificate is None:
        context.verify_mode = ssl.CERT_NONE
    return context
