"""The route of client-supplied MCP servers."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.config.mcp_servers import BadMcpServer, McpServerConfig
from holdfast.features.mcp_client.bodies import (
    ClientServer,
    ClientServerShown,
    ClientServersRequest,
    ClientServersShown,
)
from holdfast.features.mcp_client.session_tools import LEASE_S, McpTools, TooManyServers
from holdfast.sandbox.profile import ServerAccess
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import checked_session_id, decoded, json_response


class ClientServerRoutes:
    """Servers are connected in this process only."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def put(self, request: Request) -> Response:
        """PUT /api/sessions/{session_id}/mcp-servers/{client_id}."""
        body = await decoded(request, self._deps.limits, ClientServersRequest)
        session_id, client_id = request.path_params["session_id"], request.path_params["client_id"]
        checked_session_id(session_id)
        checked_session_id(client_id)
        if body.cwd and not Path(body.cwd).is_absolute():
            raise bad_request("'cwd' must be an absolute path", param="cwd")
        tools = self._deps.agent.session_tools.get("mcp_client")
        if not isinstance(tools, McpTools):
            raise Problem(409, "This server doesn't accept client-supplied MCP servers", code="not_available")
        try:
            configs = [_config(server, body.cwd) for server in body.servers]
            status = await tools.of_clients.put(session_id, client_id, configs)
        except (BadMcpServer, TooManyServers) as error:
            raise bad_request(str(error), param="servers") from None
        shown = [
            ClientServerShown(name=one.name, state=one.state, tools=one.tools, why=one.why) for one in status
        ]
        return json_response(ClientServersShown(servers=tuple(shown), renew_s=LEASE_S))


def _config(server: ClientServer, cwd: str) -> McpServerConfig:
    return McpServerConfig(
        name=server.name,
        command=tuple(server.command),
        env=server.env,
        url=server.url,
        headers=server.headers,
        transport=server.transport,
        cwd=cwd if server.command else "",
        access=ServerAccess(write=(cwd,) if cwd else ()),  # an editor's servers are about its project
    )
