"""The chaos server's record: requests, connections, and who closed each of them."""

import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct, field

from holdfast.chaos.answer import WireName
from holdfast.chaos.frames import JsonObject
from holdfast.chaos.gates import Notifier


class ClosedBy(StrEnum):
    """Who ended a connection, by the first sign of it that the server saw."""

    PEER = "peer"
    PEER_RESET = "peer reset"
    SERVER = "server"


class SeenConnection(Struct):
    """One accepted connection; times are monotonic seconds."""

    number: int
    accepted_s: float
    closed_s: float | None = None
    closed_by: ClosedBy | None = None
    received_bytes: int = 0
    sent_bytes: int = 0
    requests: int = 0


class SeenRequest(Struct):
    """One request; it is filled in while it arrives and is answered, times are monotonic seconds."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    wire: WireName | None
    connection: SeenConnection
    headers_s: float
    upload_bytes: int = 0
    body: JsonObject | None = None
    body_s: float | None = None
    first_byte_s: float | None = None
    ended_s: float | None = None
    finished: bool = False

    @property
    def accepted_s(self) -> float:
        """When its connection was accepted."""
        return self.connection.accepted_s

    @property
    def is_on_used_connection(self) -> bool:
        """Whether an earlier request came over the same connection."""
        return self.connection.requests > 1

    @property
    def model(self) -> str:
        """The model that the body names, or nothing."""
        model = (self.body or {}).get("model")
        return model if isinstance(model, str) else ""

    @property
    def wants_stream(self) -> bool:
        """Whether the body asks for a stream; a body that was not read whole counts as asking."""
        return True if self.body is None else self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        """Whether a Chat Completions body asks for the usage chunk."""
        options = (self.body or {}).get("stream_options")
        # Any mapping with a true value at this key asks for it, whatever else it holds.
        return isinstance(options, dict) and options.get("include_usage") is True  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class RecordLimits(Struct, frozen=True):
    """How much of what was seen is kept; the oldest goes first."""

    requests_max: int = 20_000
    bodies_max: int = 1_000
    body_bytes_max: int = 64 * 1024 * 1024


class SeenTraffic(Struct):
    """Everything seen so far, with conditions that a test can wait for."""

    limits: RecordLimits = field(default_factory=RecordLimits)
    requests_seen: int = 0
    connections_seen: int = 0
    others: list[SeenRequest] = field(default_factory=list[SeenRequest])
    _requests: dict[int, SeenRequest] = field(default_factory=dict[int, SeenRequest])
    _connections: dict[int, SeenConnection] = field(default_factory=dict[int, SeenConnection])
    _bodies: list[int] = field(default_factory=list[int])
    _notifier: Notifier = field(default_factory=Notifier)

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """The model requests that are kept, oldest first."""
        return list(self._requests.values())

    @property
    def connections(self) -> Sequence[SeenConnection]:
        """The connections that are kept, oldest first."""
        return list(self._connections.values())

    def request(self, number: int) -> SeenRequest:
        """The request with this number; the first is 1."""
        return self._requests[number]

    def changed(self) -> None:
        """Say that something in the record has changed."""
        self._notifier.notify()

    def add_connection(self) -> SeenConnection:
        """Enter a connection that has just been accepted."""
        self.connections_seen += 1
        seen = SeenConnection(self.connections_seen, time.monotonic())
        self._connections[seen.number] = seen
        _trim(self._connections, self.limits.requests_max)
        self.changed()
        return seen

    def next_number(self) -> int:
        """The number that the next request will have."""
        return self.requests_seen + 1

    def add_request(self, seen: SeenRequest) -> None:
        """Enter a request whose headers have been read."""
        self.requests_seen = seen.number
        self._requests[seen.number] = seen
        _trim(self._requests, self.limits.requests_max)
        self.changed()

    def add_body(self, seen: SeenRequest, body: JsonObject | None) -> None:
        """Enter a body that has been read whole, dropping the oldest ones past the limit."""
        seen.body, seen.body_s = body, time.monotonic()
        self._bodies.append(seen.number)
        if len(self._bodies) > self.limits.bodies_max:
            oldest = self._requests.get(self._bodies.pop(0))
            if oldest is not None:
                oldest.body = None
        self.changed()

    def add_other(self, seen: SeenRequest) -> None:
        """Enter a request that asks no model."""
        self.others.append(seen)
        del self.others[: -self.limits.bodies_max]
        self.changed()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on this record holds."""
        await self._notifier.until(condition)

    async def until_request(self, number: int) -> SeenRequest:
        """Wait until the headers of this request have been read."""
        await self.until(lambda: self.requests_seen >= number)
        return self._requests[number]

    async def until_body(self, number: int) -> SeenRequest:
        """Wait until the body of this request has been read whole."""
        seen = await self.until_request(number)
        await self.until(lambda: seen.body_s is not None)
        return seen

    async def until_ended(self, number: int) -> SeenRequest:
        """Wait until the answer to this request has ended, by its script or by its connection."""
        seen = await self.until_request(number)
        await self.until(lambda: seen.ended_s is not None)
        return seen

    async def until_closed(self, number: int) -> ClosedBy:
        """Wait until the connection of this request is closed, and say by whom."""
        connection = (await self.until_request(number)).connection
        await self.until(lambda: connection.closed_s is not None)
        assert connection.closed_by is not None, "a closed connection was closed by somebody"
        return connection.closed_by

    async def until_connections(self, count: int) -> None:
        """Wait until this many connections have been accepted."""
        await self.until(lambda: self.connections_seen >= count)

    async def until_all_closed(self) -> None:
        """Wait until no connection is open."""
        await self.until(lambda: all(seen.closed_s is not None for seen in self._connections.values()))


def _trim(kept: "dict[int, SeenRequest] | dict[int, SeenConnection]", count_max: int) -> None:
    while len(kept) > count_max:
        del kept[next(iter(kept))]
