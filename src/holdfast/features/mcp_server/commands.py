"""`holdfast mcp`."""

import typer

from holdfast.cli.options import Config, DataDir, Workspace


def mcp(
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Run as an MCP server for other agents (Claude Code, Codex, Cursor).

    Speaks the Model Context Protocol on standard input and output. Other agents start this command
    themselves. To set one up, see docs/mcp-server.md.
    """
    from holdfast.features.mcp_server.pipe import serve_mcp

    raise typer.Exit(serve_mcp({"data_dir": data_dir, "config": config, "agent_workspace": workspace}))
