"""Binds the endpoints of the agent as an MCP server."""

from collections.abc import Mapping

from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.mcp.agent_service import AgentService
from holdfast.server.mcp.run_calls import RunCalls
from holdfast.server.mcp.transport import McpRoutes
from holdfast.server.routing import Endpoint


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    calls = RunCalls(deps, parts.runs, parts.disconnects)
    mcp = McpRoutes(AgentService(deps, calls), deps.streams, deps.limits)
    return {
        "mcp.post": mcp.post,
        "mcp.get": mcp.get,
    }
