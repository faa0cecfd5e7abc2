"""`holdfast profiles`: list and add profiles."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config

profiles_app = typer.Typer(
    help="List and add profiles. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="List and add profiles.",
)


@profiles_app.callback(invoke_without_command=True)
def list_profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List the profiles, with the folder of each. Use one with `holdfast -p NAME`."""
    if context.invoked_subcommand is not None:
        return
    from holdfast.cli.terminal.columns import print_columns, print_json
    from holdfast.cli.terminal.output import echo
    from holdfast.features.profiles.scope import folder_of, profile_names

    found = {name: str(folder_of(name)) for name in profile_names()}
    if as_json:
        print_json([{"name": name, "folder": folder} for name, folder in found.items()])
    elif found:
        print_columns(("NAME", "FOLDER"), list(found.items()))
    else:
        echo("No profiles yet. Add one with `holdfast profiles add NAME`.")


@profiles_app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name: a-z, 0-9, - and _.")],
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", metavar="FOLDER", help="Workspace of the profile.")
    ] = Path(),
    config: Config = None,
) -> None:
    """Add a profile, with your targets and an identity to edit."""
    from holdfast.cli.terminal.output import echo, echo_error
    from holdfast.config.sources import BadConfiguration
    from holdfast.features.profiles.adding import add_profile

    try:
        folder = add_profile(name, workspace=workspace, config=config)
    except (BadConfiguration, OSError) as error:
        echo_error(f"holdfast: {error}")
        raise typer.Exit(1) from None
    echo(f"Added {folder}. Edit soul.md and holdfast.toml there, and start it with `holdfast -p {name}`.")
    echo("A running `holdfast serve` serves it after a restart.")
