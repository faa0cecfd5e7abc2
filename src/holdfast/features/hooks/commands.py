"""`holdfast hooks`: the hooks that there are, and those of workspaces that you trust."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config

hooks_app = typer.Typer(
    help="List hooks, and trust those of a workspace. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="List and trust hooks.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Workspace. Default: the current folder.")]
OfWorkspace = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="Workspace. Default: the current folder."),
]
HERE = Path()


@hooks_app.command("list")
def list_all(workspace: OfWorkspace = None, as_json: AsJson = False, config: Config = None) -> None:
    """List your hooks and those of a workspace."""
    from holdfast.features.hooks import actions

    form = "json" if as_json else "text"
    raise typer.Exit(actions.list_hooks({"config": config}, workspace or HERE, form=form))


@hooks_app.command("trust")
def trust(folder: Folder = HERE) -> None:
    """Trust a workspace's hooks, with their scripts as they are now."""
    from holdfast.features.hooks import actions

    raise typer.Exit(actions.trust(folder))


@hooks_app.command("distrust")
def distrust(folder: Folder = HERE) -> None:
    """Stop using a workspace's hooks."""
    from holdfast.features.hooks import actions

    raise typer.Exit(actions.distrust(folder))
