"""The doctor's checks of MCP servers that are called at a URL: connect, list the tools, leave."""

import asyncio
from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.config.consistency import mcp_config
from holdfast.config.settings import Settings
from holdfast.host.tools import server_place

WITHIN_S = 20.0


async def ask_servers(settings: Settings) -> Sequence[DoctorFinding]:
    """Check each server at a URL."""
    configs = [mcp_config(server) for server in settings.mcp_servers if server.url]
    if not configs:
        return []
    from holdfast.tools.mcp.servers import McpPatience, McpServers, McpStatus

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
        await servers.settled(within_s=WITHIN_S + 5.0)
        return [finding(status) for status in servers.status()]


async def ask_no_server(settings: Settings) -> Sequence[DoctorFinding]:
    """Report skipped server checks."""
    return [
        note(f"MCP server {server.name}", "not checked", "run doctor without --offline")
        for server in settings.mcp_servers
        if server.url
    ]
