"""The `holdfast skills` commands; each imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

skills_app = typer.Typer(
    help="List, add, trust and roll back skills. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="List, add and trust skills.",
    no_args_is_help=True,
)
OfWorkspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="Workspace. Default: the current folder."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Skill folder, or a folder of skills.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Skill name from `holdfast skills list`.")]


@skills_app.command("list")
def list_all(
    workspace: OfWorkspace = None, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """List skills."""
    from holdfast.features.skills import actions

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(actions.list_skills(flags, workspace, form="json" if as_json else "text"))


@skills_app.command("show")
def show(name: Name, workspace: OfWorkspace = None, data_dir: DataDir = None, config: Config = None) -> None:
    """Show a skill."""
    from holdfast.features.skills import actions

    raise typer.Exit(actions.show({"data_dir": data_dir, "config": config}, name, workspace))


@skills_app.command("add")
def add(folder: Folder) -> None:
    """Copy skills to your configuration directory."""
    from holdfast.features.skills import actions

    raise typer.Exit(actions.add(folder))


@skills_app.command("trust")
def trust(folder: Folder) -> None:
    """Trust a workspace's skills, with all their files as they are now."""
    from holdfast.features.skills import actions

    raise typer.Exit(actions.trust(folder))


@skills_app.command("history")
def history(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List agents' changes to skills, newest first."""
    from holdfast.features.skills import actions

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(actions.history(flags, form="json" if as_json else "text"))


@skills_app.command("rollback")
def rollback(
    to_seq: Annotated[int, typer.Argument(metavar="SEQ", help="Last change to keep; 0 discards all.")],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Roll agents' changes to skills back to an earlier change."""
    from holdfast.features.skills import actions

    raise typer.Exit(actions.roll_back({"data_dir": data_dir, "config": config}, to_seq))


@skills_app.command("remove")
def remove(name: Name, data_dir: DataDir = None, config: Config = None) -> None:
    """Remove agents' changes to a skill. If there are none, remove your own skill."""
    from holdfast.features.skills import actions

    raise typer.Exit(actions.remove({"data_dir": data_dir, "config": config}, name))
