"""The interface between the MCP transport and the service that handles its requests."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from starlette.types import Scope

from holdfast.features.mcp_server.bodies import RpcId, RpcMessage
from holdfast.features.mcp_server.peer import McpPeer
from holdfast.features.mcp_server.rpc import Json
from holdfast.server.streams.stream import Feed


class McpCaller(Struct, frozen=True):
    """Whose request it is: the client, and its HTTP request with the key's name and scopes."""

    peer: McpPeer
    scope: Scope
    idempotency_key: str = ""  # of the HTTP request
    last_event_id: str = ""


class McpCall(Struct, frozen=True):
    """A request of a client."""

    id: RpcId
    method: str
    params: Json
    caller: McpCaller

    @property
    def meta(self) -> Mapping[str, Any]:
        """The client's metadata for the request."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}  # pyright: ignore[reportUnknownVariableType]

    @property
    def progress_token(self) -> RpcId | None:
        """The name under which the client wants to hear of progress."""
        token = self.meta.get("progressToken")
        is_token = isinstance(token, str | int) and not isinstance(token, bool)
        return token if is_token else None


class McpStream(Struct, frozen=True):
    """An answer that takes a while; `on_left` is called when its reader is gone for any reason."""

    feed: Feed
    on_left: Callable[[], None] | None = None


class McpService(Protocol):
    """Answers the requests of clients; the transport itself does `initialize`, `server/discover` and `ping`.

    Every method may raise an RpcError or a Problem.
    """

    @property
    def instructions(self) -> str:
        """Return the instructions for a model."""
        ...

    def capabilities(self, peer: McpPeer) -> Json:
        """Return the server's capabilities for this client."""
        ...

    async def call(self, call: McpCall) -> Json | McpStream:
        """The result of a request, or the stream that ends with it."""
        ...

    async def notified(self, caller: McpCaller, method: str, params: Json) -> None:
        """A client says something that needs no answer."""
        ...

    async def answered(self, caller: McpCaller, message: RpcMessage) -> None:
        """A client answers a request that one of the streams carried."""
        ...

    async def resumed(self, caller: McpCaller) -> McpStream:
        """The rest of a stream after `last_event_id`."""
        ...

    async def listening(self, caller: McpCaller) -> McpStream:
        """Stream notifications between requests."""
        ...
