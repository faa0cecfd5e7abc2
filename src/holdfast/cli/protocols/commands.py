"""The commands that talk to another program on standard input and output."""

import typer

from holdfast.cli.options import Config, DataDir, Model, Workspace


def acp(
    model: Model = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Talk to an editor on standard input and output, over the Agent Client Protocol.

    Editors start this command themselves; docs/editors.md says how to set them up.
    """
    from holdfast.cli.acp.agent import serve_editor

    flags = {"data_dir": data_dir, "config": config, "agent_workspace": workspace}
    raise typer.Exit(serve_editor(flags, model=model or ""))


def mcp(
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Talk to another agent on standard input and output, over the Model Context Protocol.

    Other agents start this command themselves; docs/mcp-server.md says how to set them up.
    """
    from holdfast.cli.protocols.mcp_stdio import serve_mcp

    raise typer.Exit(serve_mcp({"data_dir": data_dir, "config": config, "agent_workspace": workspace}))
