"""Where a server is, and how long to wait for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the key that opens it; `socket` is a path, if it listens on one.

    A server on this machine is known by the file of its `certificate`, whatever names that is for.
    """

    url: str
    key: str = field(default="", repr=False)
    socket: str = ""
    certificate: str = ""


Where: TypeAlias = Callable[[], Awaitable[Address]]


class ClientPatience(Struct, frozen=True, kw_only=True):
    """How long a client waits for a server that isn't there, and how often it tries again."""

    first_s: float = 0.1
    most_s: float = 2.0
    call_s: float = 20.0  # for a request
    follow_s: float = 300.0  # for an event stream that broke
    silence_s: float = 60.0  # a stream sends a heartbeat every 15 s, so after this the connection is dead
    answer_s: float = 120.0  # for the next byte of an answer


def at(address: Address) -> Where:
    """A server that never moves."""

    async def where() -> Address:
        return replace(address, url=address.url.rstrip("/"))

    return where
