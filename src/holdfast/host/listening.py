"""The socket that the server listens on, TCP or Unix, and its TLS certificate."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from holdfast.config.server import ServerSettings

_log = logging.getLogger(__name__)
_ABOUT_PORT = (errno.EADDRINUSE, errno.EACCES)
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared, not listened on
SOCKET_MODE = 0o660  # a reverse proxy connects as a member of the folder's group
RELOAD_S = 60.0


class Listening(Struct, frozen=True):
    """A socket that listens, and where programs on this machine reach it."""

    socket: socket.socket
    url: str
    path: str = ""  # of a Unix socket

    def close(self) -> None:
        """Close the socket, and remove its file."""
        self.socket.close()
        if self.path:
            Path(self.path).unlink(missing_ok=True)


def listen(server: ServerSettings) -> Listening:
    """Bind before anything else starts, so that a taken address gets its own error; raises OSError."""
    if server.unix_socket:
        path = str(Path(server.unix_socket).expanduser().absolute())
        return Listening(_unix_socket(path), "http://localhost", path)
    bound = _tcp_socket(server.host, server.port)
    return Listening(bound, url_of(server.host, bound.getsockname()[1], is_tls=bool(server.tls_cert)))


def url_of(host: str, port: int, *, is_tls: bool = False) -> str:
    """Where this machine reaches what listens there: one that listens on every address, on its own."""
    host = EVERY_ADDRESS.get(host, host)
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        advice = "--port" if error.errno in _ABOUT_PORT else "--host"
        raise OSError(
            f"can't listen on {host}, port {port}: {error.strerror}; choose another with {advice}"
        ) from error
    return _opened(listening)


def _unix_socket(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _drop_stale(path)
        listening.bind(path)
        os.chmod(path, SOCKET_MODE)  # noqa: PTH101  # the name of a path isn't needed for it
    except OSError as error:
        listening.close()
        raise OSError(f"can't listen on server.unix_socket {path}: {error.strerror or error}") from error
    return _opened(listening)


def _drop_stale(path: str) -> None:
    """Remove the socket that a killed server left; raises OSError if a server still listens on it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if not Path(path).is_socket():
                raise OSError(errno.EEXIST, "a file of this name exists") from None
            Path(path).unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, "another server listens on it")


def _opened(listening: socket.socket) -> socket.socket:
    listening.listen(1024)
    listening.setblocking(False)
    return listening


class TlsFiles(Struct, frozen=True):
    """A certificate with its chain, and its private key."""

    cert: Path
    key: Path

    @classmethod
    def of(cls, server: ServerSettings) -> "TlsFiles | None":
        """Return the files of the settings, or None if the server speaks plain HTTP."""
        if not server.tls_cert:
            return None
        return cls(Path(server.tls_cert).expanduser(), Path(server.tls_key or server.tls_cert).expanduser())

    def context(self) -> ssl.SSLContext:
        """Load the files; raises OSError that says what is wrong with them. Blocks."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Use the files for new connections; raises OSError. Blocks."""
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            why = getattr(error, "strerror", "") or str(error)
            raise OSError(f"can't use server.tls_cert {self.cert} with {self.key}: {why}") from error

    def version(self) -> tuple[tuple[int, int], ...]:
        """Return what changes when a file is replaced. Blocks."""
        found = (self.cert.stat(), self.key.stat())
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)

    async def keep_loaded(
        self, context: ssl.SSLContext, *, sleep_s: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """Load renewed files without a restart; an unusable renewal is logged, and the old one stays."""
        known = await asyncio.to_thread(self.version)
        while True:
            await sleep_s(RELOAD_S)
            try:
                found = await asyncio.to_thread(self.version)
                if found == known:
                    continue
                known = found
                await asyncio.to_thread(self.load_into, context)
            except OSError as error:
                _log.error("the renewed certificate can't be used, so the old one stays: %s", error)
            else:
                _log.info("loaded the renewed certificate %s", self.cert)


def _no_password() -> str:
    """OpenSSL would ask on the terminal."""
    raise ValueError("the private key has a password; store it without one, readable only by this user")
