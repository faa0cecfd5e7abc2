"""The way out of a sandbox: a proxy that connects a command to the hosts on a list, and to nothing else.

The sandbox has a network of its own, with nothing in it. Before the command starts, a port is opened on
127.0.0.1 in there, and the listening socket is handed out to the server: a socket stays in the network that
it was made in, whoever holds it. So nothing of ours runs inside, and no socket file is visible there.

The proxy decides by the host's name, resolves it, checks the addresses and connects to one that it checked.
The command itself resolves nothing: DNS does not leave the sandbox.
"""

import asyncio
import fcntl
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeAlias

from msgspec import Struct

from holdfast.policy.host_rules import HostRules, is_host, plain_name

PORT = 3128
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 32 * 1024
HEAD_S = 15.0
CONNECT_S = 15.0
IDLE_S = 300.0
START_S = 30.0
BLOCKED_MAX = 20
_CHUNK_BYTES = 64 * 1024
_FD_MIN = 64
_SOURCE = Path(__file__).with_name("_listener.py")
_URL = f"http://127.0.0.1:{PORT}"
_INSIDE = "localhost,127.0.0.1,::1"
PROXY_VARIABLES = MappingProxyType(
    {
        **{
            name: _URL for each in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") for name in (each, each.lower())
        },
        "NO_PROXY": _INSIDE,
        "no_proxy": _INSIDE,
        "NODE_USE_ENV_PROXY": "1",
    }
)
_REQUEST = re.compile(rb"([A-Z]{1,20}) (\S{1,8000}) HTTP/1\.[01]\Z")
_TARGET = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/\[\]@]+)(?::(\d{1,5}))?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\r\n\0]*")
_HOP = re.compile(rb"connection|keep-alive|proxy-[a-z-]+|host")

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class _Refused(Exception):
    """A request that is not carried out, with the status and the sentence that the program gets."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class ProxyLimits(Struct, frozen=True, kw_only=True):
    """How much a command may ask of the proxy at once, and how long each step may take."""

    connections: int = CONNECTIONS_MAX
    head_s: float = HEAD_S
    connect_s: float = CONNECT_S
    idle_s: float = IDLE_S
    start_s: float = START_S


class _Asked(Struct, frozen=True):
    """A client's request: its destination, and the bytes to send there first."""

    host: str
    port: int
    first: bytes  # empty for a tunnel


class NetworkProxy:
    """The proxy of one command; `async with` opens it, and leaving closes every connection.

    Start the command as `argv_for(argv)`, with `fd` passed on to it and PROXY_VARIABLES in its environment.
    Call `started` right after the start.
    """

    def __init__(
        self, rules: HostRules, *, resolve: Resolve | None = None, limits: ProxyLimits | None = None
    ) -> None:
        self._rules = rules
        self._resolve = resolve or _resolved
        self._limits = limits or ProxyLimits()
        self._blocked: dict[str, None] = {}
        self._more_blocked = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._closing = False
        self._server: asyncio.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None

    async def __aenter__(self) -> Self:
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        # Shells use the low numbers for themselves.
        with theirs:
            self._theirs = socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _FD_MIN))
        self._serving = asyncio.get_running_loop().create_task(self._serve(), name="sandbox network proxy")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.started()
        self._closing = True
        tasks = [*self._connections, *filter(None, [self._serving])]
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        if self._ours is not None:
            self._ours.close()
        for error in ended:
            if isinstance(error, Exception):
                raise error  # a defect of ours, not of a connection

    @property
    def fd(self) -> int:
        """The descriptor that the command must inherit."""
        assert self._theirs is not None, "the proxy is open"
        return self._theirs.fileno()

    @property
    def blocked(self) -> tuple[str, ...]:
        """The hosts that were refused, without duplicates, up to a maximum."""
        more = (f"{self._more_blocked} more",) if self._more_blocked else ()
        return (*self._blocked, *more)

    def argv_for(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The argv to start inside the sandbox; it opens the port and becomes the given one. Blocks."""
        return (*python_inside(), str(self.fd), str(PORT), "/usr/bin/env", "--", *argv)

    def started(self) -> None:
        """Close our copy of what the command inherited."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    async def _serve(self) -> None:
        assert self._ours is not None, "the proxy is open"
        listener = await self._received(self._ours)
        if listener is not None:
            listener.setblocking(False)
            self._server = await asyncio.start_server(self._connected, sock=listener, limit=HEAD_BYTES_MAX)

    async def _received(self, ours: socket.socket) -> socket.socket | None:
        """The socket that listens in the sandbox; None if the command never got so far."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(ours, lambda: readable.done() or readable.set_result(None))
        try:
            async with asyncio.timeout(self._limits.start_s):
                await readable
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except TimeoutError:
            return None
        finally:
            loop.remove_reader(ours)
        return socket.socket(fileno=descriptors[0]) if descriptors else None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection has a task"
        self._connections.add(task)
        try:
            await self._carried(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two sides hung up, which ends the connection for both
        except asyncio.CancelledError:
            if not self._closing:
                raise
            # Python 3.11's streams would log the end of the task as an error.
        finally:
            self._connections.discard(task)
            await _closed(writer)

    async def _carried(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > 2 * self._limits.connections:
                return  # not even a request is read
            async with asyncio.timeout(self._limits.head_s):
                asked = _asked(await _head(reader))
            if len(self._connections) > self._limits.connections:
                raise _Refused("503 Service Unavailable", "too many connections are open at once.")
            upstream = await self._upstream(asked)
        except TimeoutError:
            await _refuse(writer, _Refused("408 Request Timeout", "the request did not arrive in time."))
            return
        except _Refused as refused:
            await _refuse(writer, refused)
            return
        far_reader, far_writer = upstream
        try:
            if asked.first:
                far_writer.write(asked.first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _joined((reader, far_writer), (far_reader, writer), idle_s=self._limits.idle_s)
        finally:
            await _closed(far_writer)

    async def _upstream(self, asked: _Asked) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that was checked; raises _Refused."""
        host, port = asked.host, asked.port
        if not is_host(host) or not self._rules.allows(host, port):
            raise self._block(host, port, "it is not on the list of hosts that this command may reach.")
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._resolve(host, port)
                allowed = [each for each in addresses if self._may_reach(each, port)]
                if addresses and not allowed:
                    raise self._block(host, port, "its address is not public.")
                return await _first_connection(allowed, port)
        except TimeoutError:
            raise _Refused("504 Gateway Timeout", f"{host} didn't respond in time.") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise _Refused("502 Bad Gateway", f"Can't reach {host}: {why}.") from error

    def _may_reach(self, text: str, port: int) -> bool:
        try:
            return self._rules.may_reach(ipaddress.ip_address(text), port)
        except ValueError:
            return False

    def _block(self, host: str, port: int, why: str) -> _Refused:
        shown = plain_name(host)[:253]
        named = ascii(shown if port in {80, 443} else f"{shown}:{port}")[1:-1]
        if named in self._blocked or len(self._blocked) < BLOCKED_MAX:
            self._blocked[named] = None
        else:
            self._more_blocked += 1
        return _Refused("403 Forbidden", f"{named} is blocked: {why}")


def python_inside() -> tuple[str, ...]:
    """How the program that opens the port is started, which needs `read_inside`; blocks."""
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", _SOURCE.read_text("utf-8"))


def read_inside() -> tuple[str, ...]:
    """The folders that must be readable in the sandbox: where Python is installed; blocks."""
    return tuple(dict.fromkeys(map(os.path.realpath, (sys.base_prefix, sys.base_exec_prefix))))


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused("431 Request Header Fields Too Large", "its header is too long.") from None


def _asked(head: bytes) -> _Asked:
    """Where a request wants to go; raises _Refused for what is no proxy request."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST.match(line)
    if found is None:
        raise _Refused("400 Bad Request", "this is an HTTP proxy, and that is not an HTTP request.")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        host, port = _host_and_port(target, 0)
        return _Asked(host, port, b"")
    if target[:7].lower() != "http://":
        raise _Refused("400 Bad Request", "this is a proxy: it needs a whole http address, or CONNECT.")
    place, slash, path = target[7:].partition("/")
    host, port = _host_and_port(place, 80)
    # One request for each connection, so that no later one goes to this host under another name.
    kept = [field for name, field in _checked(fields) if not _HOP.fullmatch(name)]
    request = method + b" " + f"{slash or '/'}{path}".encode("latin-1") + b" HTTP/1.1"
    own = [b"Host: " + place.encode("latin-1"), b"Connection: close"]
    return _Asked(host, port, b"\r\n".join([request, *own, *kept, b"", b""]))


def _checked(fields: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """The fields of a head with their names; raises _Refused for anything ambiguous."""
    checked: list[tuple[bytes, bytes]] = []
    for field in fields:
        found = _FIELD.fullmatch(field)
        if found is None:
            raise _Refused("400 Bad Request", "the request has an invalid header.")
        checked.append((found[1].lower(), field))
    names = [name for name, _ in checked]
    lengths = names.count(b"content-length") + names.count(b"transfer-encoding")
    if names.count(b"host") > 1 or lengths > 1:
        raise _Refused("400 Bad Request", "the request has more than one Host or length header.")
    return checked


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    found = _TARGET.fullmatch(text)
    port = int(found[2] or default) if found else 0
    if found is None or not 0 < port <= 65_535:  # noqa: PLR2004 - the highest port
        raise _Refused("400 Bad Request", "it names no host and port.")
    return found[1].strip("[]"), port


async def _first_connection(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address that answers; raises OSError."""
    last = OSError("it has no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port, limit=_CHUNK_BYTES)
        except OSError as error:
            last = error
    raise last


async def _joined(
    *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    idle_s: float,
) -> None:
    """Copy both ways until both have ended, or nothing moved for too long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_s) as idle:

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
                idle.reschedule(loop.time() + idle_s)
            if writer.can_write_eof():
                writer.write_eof()

        async with asyncio.TaskGroup() as both:
            for reader, writer in ways:
                both.create_task(_quietly(copy(reader, writer)))


async def _quietly(copying: Awaitable[None]) -> None:
    """A side that hangs up has ended; the other one finds out when it writes."""
    with suppress(OSError):
        await copying


async def _refuse(writer: asyncio.StreamWriter, refused: _Refused) -> None:
    body = f"Holdfast's sandbox: {refused}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _resolved(host: str, port: int) -> Sequence[str]:
    from aiohttp import AsyncResolver

    resolver = AsyncResolver()
    try:
        found = await resolver.resolve(host, port, socket.AF_UNSPEC)
    finally:
        await resolver.close()
    return [each["host"] for each in found]
