"""The commands of `holdfast skills`; a command imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

skills_app = typer.Typer(
    help="List, add and trust skills, and see changes. Exit codes: 0 success, 1 failure, 2 usage.",
    short_help="List, add and trust skills.",
    no_args_is_help=True,
)
OfWorkspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="The workspace. Default: this folder."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A skill, or a folder with skills.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `holdfast skills list` shows it.")]


@skills_app.command("list")
def list_all(
    workspace: OfWorkspace = None, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """List the skills."""
    from holdfast.cli.powers import skills

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(skills.list_skills(flags, workspace, form="json" if as_json else "text"))


@skills_app.command("show")
def show(name: Name, workspace: OfWorkspace = None, data_dir: DataDir = None, config: Config = None) -> None:
    """Show a skill."""
    from holdfast.cli.powers import skills

    raise typer.Exit(skills.show({"data_dir": data_dir, "config": config}, name, workspace))


@skills_app.command("add")
def add(folder: Folder) -> None:
    """Copy skills to your own, in the configuration directory."""
    from holdfast.cli.powers import skills

    raise typer.Exit(skills.add(folder))


@skills_app.command("trust")
def trust(folder: Folder) -> None:
    """Trust the skills of a workspace as they are now, with all their files."""
    from holdfast.cli.powers import skills

    raise typer.Exit(skills.trust(folder))


@skills_app.command("history")
def history(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List what agents changed in skills, newest first."""
    from holdfast.cli.powers import skills

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(skills.history(flags, form="json" if as_json else "text"))


@skills_app.command("rollback")
def rollback(
    to_seq: Annotated[int, typer.Argument(metavar="SEQ", help="The last change that is to count; 0: none.")],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Make the changes of skills exactly what they were after a change."""
    from holdfast.cli.powers import skills

    raise typer.Exit(skills.roll_back({"data_dir": data_dir, "config": config}, to_seq))


@skills_app.command("remove")
def remove(name: Name, data_dir: DataDir = None, config: Config = None) -> None:
    """Remove what agents changed in a skill; if there is nothing, your own skill."""
    from holdfast.cli.powers import skills

    raise typer.Exit(skills.remove({"data_dir": data_dir, "config": config}, name))
