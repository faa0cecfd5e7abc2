"""Reads HTTP/1.1 requests off a connection, one after the other."""

from dataclasses import dataclass, field
from typing import Protocol

import httptools
from msgspec import Struct

NotHttp = httptools.HttpParserError
WantsUpgrade = httptools.HttpParserUpgrade


class RequestHead(Struct, frozen=True):
    """Method, target and headers of a request, and whether the client wants to use the connection again."""

    method: str
    target: str
    headers: dict[str, str]
    keeps_alive: bool = True


class RequestListener(Protocol):
    """Receives what has been read."""

    def head_read(self, head: RequestHead) -> None:
        """The headers are complete."""
        ...

    def piece_read(self, piece: bytes) -> None:
        """A piece of the body has come."""
        ...

    def request_read(self) -> None:
        """The body is complete."""
        ...


@dataclass(slots=True)
class RequestParser:
    """Feeds bytes to httptools and passes on what it finds."""

    listener: RequestListener
    _parser: httptools.HttpRequestParser = field(init=False)
    _target: bytes = b""
    _headers: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Take bytes; raises NotHttp, or WantsUpgrade if they ask for another protocol."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """A request starts."""
        self._target, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; the last of a name counts."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers are known."""
        method = self._parser.get_method().decode("latin-1")
        target, keeps_alive = self._target.decode("latin-1"), self._parser.should_keep_alive()
        self.listener.head_read(RequestHead(method, target, self._headers, keeps_alive))

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self.listener.piece_read(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self.listener.request_read()
