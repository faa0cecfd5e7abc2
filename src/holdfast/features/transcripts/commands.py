"""`holdfast import claude-code`, `holdfast import codex` and `holdfast rescue`."""

from typing import Annotated

import typer

from holdfast.cli.options import Config, DataDir

import_app = typer.Typer(help="Import settings and sessions from another program.", no_args_is_help=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the result without importing.")]
Workspaces = Annotated[
    bool,
    typer.Option(
        "--workspaces",
        help="Continue each session in its own directory, if that still exists. Default: the configured "
        "workspace.",
    ),
]


@import_app.callback()
def group() -> None:
    """Import settings and sessions from another program."""


@import_app.command("claude-code", short_help="Import sessions from Claude Code.")
def import_claude_code(
    home: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR", help="Directory of Claude Code. Default: CLAUDE_CONFIG_DIR or ~/.claude."
        ),
    ] = None,
    workspaces: Workspaces = False,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Import all sessions from Claude Code, to search and continue them. Its files stay unchanged."""
    from holdfast.features.transcripts.command import import_from

    flags = {"data_dir": data_dir, "config": config}
    how = "try" if dry_run else "do"
    raise typer.Exit(import_from("claude-code", home, flags, how=how, keep_workspaces=workspaces))


@import_app.command("codex", short_help="Import sessions from Codex.")
def import_codex(
    home: Annotated[
        str | None, typer.Argument(metavar="DIR", help="Directory of Codex. Default: CODEX_HOME or ~/.codex.")
    ] = None,
    workspaces: Workspaces = False,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Import all sessions from Codex, to search and continue them. Its files stay unchanged."""
    from holdfast.features.transcripts.command import import_from

    flags = {"data_dir": data_dir, "config": config}
    how = "try" if dry_run else "do"
    raise typer.Exit(import_from("codex", home, flags, how=how, keep_workspaces=workspaces))


def rescue(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Transcript (.jsonl) of Claude Code or Codex.")],
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Import a damaged or incomplete transcript, and report what was lost."""
    from holdfast.features.transcripts.command import rescue_file

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(rescue_file(file, flags, how="try" if dry_run else "do"))
