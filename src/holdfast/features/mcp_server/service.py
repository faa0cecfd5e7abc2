"""Requests from the MCP transport to the service, and the streams that it returns."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from starlette.types import Scope

from holdfast.features.mcp_server.bodies import RpcId
from holdfast.features.mcp_server.peer import McpPeer
from holdfast.features.mcp_server.rpc import Json
from holdfast.server.streams.stream import Feed


class McpCaller(Struct, frozen=True):
    """The caller: the client, and its HTTP request with the key's name and scopes."""

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
