"""`holdfast commands`: the slash commands that you write, and those of workspaces that you trust."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson

commands_app = typer.Typer(
    help="List your own slash commands, and trust those of a workspace. "
    "Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="List and trust slash commands.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Workspace. Default: the current folder.")]
HERE = Path()


@commands_app.command("list")
def list_all(folder: Folder = HERE, as_json: AsJson = False) -> None:
    """List your slash commands and those of a workspace."""
    from holdfast.features.commands import actions

    raise typer.Exit(actions.list_commands(folder, form="json" if as_json else "text"))


@commands_app.command("trust")
def trust(folder: Folder = HERE) -> None:
    """Trust a workspace's slash commands as they are now."""
    from holdfast.features.commands import actions

    raise typer.Exit(actions.trust(folder))
