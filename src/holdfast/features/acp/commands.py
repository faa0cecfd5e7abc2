"""`holdfast acp`."""

import typer

from holdfast.cli.options import Config, DataDir, Model, Workspace


def acp(
    model: Model = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Run as an editor's agent over ACP (Zed, JetBrains, Neovim).

    Speaks the Agent Client Protocol on standard input and output. Editors start this command themselves. To
    set one up, see docs/editors.md.
    """
    from holdfast.features.acp.agent import serve_editor

    flags = {"data_dir": data_dir, "config": config, "agent_workspace": workspace}
    raise typer.Exit(serve_editor(flags, model=model or ""))
