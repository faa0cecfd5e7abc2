"""The doctor's checks of MCP servers: programs exist, and servers at a URL respond."""

import asyncio
import shutil
from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.config.settings import McpServerSettings, Settings
from holdfast.features.mcp_client.session_tools import server_place
from holdfast.interfaces.feature import DoctorContext

WITHIN_S = 20.0


async def check_servers(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check each configured server."""
    servers = context.settings.mcp_servers
    programs = await asyncio.to_thread(_programs, [server for server in servers if server.command])
    if not context.is_offline:
        return [*programs, *await _connect(context.settings)]
    offline = (f"MCP server {server.name}" for server in servers if server.url)
    return [*programs, *(note(name, "not checked", "run doctor without --offline") for name in offline)]


def _programs(servers: Sequence[McpServerSettings]) -> list[DoctorFinding]:
    return [
        ok(f"MCP server {server.name}", f"runs {found}")
        if (found := shutil.which(server.command[0]))
        else fault(
            f"MCP server {server.name}",
            f"program not found: {server.command[0]}",
            "install it, or fix `command` in the configuration",
        )
        for server in servers
    ]


async def _connect(settings: Settings) -> Sequence[DoctorFinding]:
    """Connect to each server at a URL, list its tools and disconnect."""
    from holdfast.config.mcp_servers import mcp_config

    configs = [mcp_config(server) for server in settings.mcp_servers if server.url]
    if not configs:
        return []
    from holdfast.features.mcp_client.process import McpPatience
    from holdfast.features.mcp_client.server import McpStatus
    from holdfast.features.mcp_client.servers import McpServers

    def finding(status: McpStatus) -> DoctorFinding:
        name = f"MCP server {status.name}"
        if status.state == "connected":
            left_out = f", {len(status.left_out)} left out" if status.left_out else ""
            return ok(name, f"connected; {counted(status.tools, 'tool')}{left_out}", tools=status.tools)
        why = status.why or f"no response within {WITHIN_S:g} s"
        if "mcp-sign-in" in why:
            return fault(name, "needs you to sign in", f"run `holdfast mcp-sign-in {status.name}`")
        return fault(name, why, "check its `url` and `headers`, and that it is running")

    place = await asyncio.to_thread(server_place, settings)
    patience = McpPatience(connect_s=WITHIN_S, backoff_first_s=WITHIN_S)
    async with McpServers(configs, environment={}, patience=patience, place=place) as servers:
        await servers.tried_once(within_s=WITHIN_S + 5.0)
        return [finding(status) for status in servers.status()]
