"""The operation by which a client supplies MCP servers for one session, and its bodies."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ResponseBody
from holdfast.api.operation import Operation
from holdfast.api.sessions import AbsolutePath


class ClientServer(msgspec.Struct, kw_only=True):
    """A client-supplied MCP server: a program to start, or a URL."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    command: Annotated[list[str], msgspec.Meta(max_length=256)] = msgspec.field(default_factory=list[str])
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    transport: Literal["auto", "http", "sse"] = "auto"


class ClientServersRequest(msgspec.Struct):
    """The body of PUT /api/sessions/{session_id}/mcp-servers/{client_id}. An empty list disconnects them."""

    servers: Annotated[list[ClientServer], msgspec.Meta(max_length=32)]
    cwd: AbsolutePath = ""  # working directory of programs, as an absolute path


class ClientServerShown(ResponseBody, frozen=True):
    """A client-supplied MCP server: connecting, connected or down, and why."""

    name: str
    state: str
    tools: int = 0
    why: str = ""


class ClientServersShown(ResponseBody, frozen=True):
    """Client-supplied servers. They disconnect `renew_s` seconds after the last such request."""

    servers: tuple[ClientServerShown, ...]
    renew_s: float


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "PUT",
        "/api/sessions/{session_id}/mcp-servers/{client_id}",
        "mcp_servers.put",
        tag="Sessions",
        summary=(
            "Connect client-supplied MCP servers to this session. The client must repeat the request to "
            "keep them. `client_id` is any text chosen by the client. Nothing is stored."
        ),
        scopes=("admin",),
        request=ClientServersRequest,
        responses={200: ClientServersShown},
        errors={400: "invalid_request, invalid_json", 409: "not_available"},
        needs_request=True,
    ),
)
