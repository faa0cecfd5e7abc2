"""`holdfast agents`: list the named agents, and trust those of a workspace."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson

agents_app = typer.Typer(
    help="List named agents, and trust those of a workspace. "
    "Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="List and trust named agents.",
)


@agents_app.callback(invoke_without_command=True)
def list_agents(
    context: typer.Context,
    workspace: Annotated[
        str,
        typer.Option("--workspace", "-w", metavar="FOLDER", help="Workspace. Default: the current folder."),
    ] = ".",
    as_json: AsJson = False,
) -> None:
    """List your agents and those of a workspace, and whether you trust them."""
    if context.invoked_subcommand is not None:
        return
    from holdfast.cli.terminal.columns import print_columns, print_json
    from holdfast.cli.terminal.output import echo, echo_error
    from holdfast.config.files import own_config_home
    from holdfast.features.delegation.agents import OWN_FOLDER, WORKSPACE_FOLDER, AgentLibrary
    from holdfast.safe_text import safe_line

    home, place = own_config_home(), Path(workspace).absolute()
    files = AgentLibrary(home).files(place)
    if as_json:
        print_json([one.shown() for one in files.values()])
        return
    rows = [
        (safe_line(one.name, 64), one.standing, safe_line(one.agent.description, 80))
        for one in files.values()
        if one.agent is not None
    ]
    if rows:
        print_columns(("NAME", "FROM", "DESCRIPTION"), rows)
    elif not files:
        echo(f"No agents yet. Add NAME.md to {home / OWN_FOLDER}, or to {WORKSPACE_FOLDER} in a workspace.")
    for one in files.values():
        if text := one.problem or one.note:
            echo_error(f"{safe_line(str(one.path), 300)}: {safe_line(text, 300)}")


@agents_app.command("trust")
def trust(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE", help="Agent files, or a workspace.")],
) -> None:
    """Trust a workspace's agents, with their files as they are now."""
    from holdfast.cli.terminal.output import echo, echo_error
    from holdfast.config.files import own_config_home
    from holdfast.config.trust import TrustUnreadable
    from holdfast.features.delegation.agents import WORKSPACE_FOLDER, AgentLibrary, BadAgent
    from holdfast.safe_text import exact_line, safe_line

    library = AgentLibrary(own_config_home())
    files = [file for path in paths for file in _files(path, WORKSPACE_FOLDER)]
    failed = not files
    for file in files:
        try:
            echo(f"Trusted {library.trust(file).name}. If the file changes, trust it again.")
        except (BadAgent, TrustUnreadable, OSError) as error:
            echo_error(f"holdfast: {exact_line(str(file))} wasn't trusted: {safe_line(str(error), 300)}")
            failed = True
    if not files:
        echo_error(f"holdfast: there are no agents in {paths[0] / WORKSPACE_FOLDER}")
    raise typer.Exit(int(failed))


def _files(path: Path, folder: str) -> list[Path]:
    """The file, or those of a workspace; absolute, because the list of trusted files has whole paths."""
    return sorted((path / folder).absolute().glob("*.md")) if path.is_dir() else [path.absolute()]
