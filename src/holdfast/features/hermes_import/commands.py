"""`holdfast import hermes`."""

from typing import Annotated

import typer

from holdfast.cli.options import Config, DataDir

import_app = typer.Typer()


@import_app.command("hermes", short_help="Import from hermes-agent and its web UI.")
def import_hermes(
    home: Annotated[
        str | None,
        typer.Argument(metavar="HOME", help="Home directory. Default: HERMES_HOME or ~/.hermes."),
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without importing.")] = False,
) -> None:
    """Import settings, sessions, memory, skills and jobs from hermes-agent and its web UI.

    Their data stays unchanged.
    """
    from holdfast.features.hermes_import.command import import_hermes as run

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(run(home, flags, how="try" if dry_run else "do"))
