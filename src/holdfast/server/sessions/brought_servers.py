"""The route by which a client brings MCP servers for one session."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.sessions import BringServersRequest, BroughtServer, BroughtServersShown, BroughtShown
from holdfast.sandbox.profile import ServerAccess
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import checked_session_id, decoded, json_response
from holdfast.tools.mcp.brought import LEASE_S
from holdfast.tools.mcp.config import BadMcpServer, McpServerConfig


class BroughtServerRoutes:
    """The servers live in this process and nowhere else."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def put(self, request: Request) -> Response:
        """PUT /api/sessions/{session_id}/mcp-servers/{client_id}."""
        wanted = await decoded(request, self._deps.limits, BringServersRequest)
        session_id, client_id = request.path_params["session_id"], request.path_params["client_id"]
        checked_session_id(session_id)
        checked_session_id(client_id)
        if wanted.cwd and not Path(wanted.cwd).is_absolute():
            raise bad_request("'cwd' must be an absolute path", param="cwd")
        brought = self._deps.agent.brought
        if brought is None:
            raise Problem(409, "This server doesn't accept client-supplied MCP servers", code="not_available")
        try:
            configs = [_config(one, wanted.cwd) for one in wanted.servers]
            status = await brought.bring(session_id, client_id, configs)
        except BadMcpServer as error:
            raise bad_request(str(error), param="servers") from None
        shown = [BroughtShown(name=one.name, state=one.state, tools=one.tools, why=one.why) for one in status]
        return json_response(BroughtServersShown(servers=tuple(shown), renew_s=LEASE_S))


def _config(given: BroughtServer, cwd: str) -> McpServerConfig:
    return McpServerConfig(
        name=given.name,
        command=tuple(given.command),
        env=given.env,
        url=given.url,
        headers=given.headers,
        transport=given.transport,
        cwd=cwd if given.command else "",
        access=ServerAccess(write=(cwd,) if cwd else ()),  # an editor's servers are about its project
    )
