"""`holdfast quarantine`: what commands changed against the rules, to look at, bring back or delete."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.sandbox.quarantine import Quarantine, QuarantinedFile

quarantine_app = typer.Typer(
    help="Protected files that sandboxed commands changed without approval.",
    short_help="See and restore what the sandbox took away.",
    no_args_is_help=True,
)
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="As `holdfast quarantine list` shows them.")]


@quarantine_app.command("list", short_help="List what is in quarantine.")
def list_files(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List what is in quarantine, the newest first: where it was, and where it is now."""
    from holdfast.cli.terminal.columns import print_columns, print_json, when

    files = _quarantine(data_dir, config).files()
    if as_json:
        print_json(files)
    else:
        rows = [(each.id, when(each.taken_at), each.path, each.kept) for each in files]
        print_columns(("ID", "TAKEN", "FROM", "NOW AT"), rows)


@quarantine_app.command("restore", short_help="Put files back where they were.")
def restore(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Put files back where they were. What is there now takes their place, so nothing is lost."""
    quarantine = _quarantine(data_dir, config)
    raise typer.Exit(_each(ids, quarantine.restore, "Restored"))


@quarantine_app.command("drop", short_help="Delete files from quarantine.")
def drop(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Delete files from quarantine for good."""
    quarantine = _quarantine(data_dir, config)
    raise typer.Exit(_each(ids, quarantine.drop, "Deleted"))


def _quarantine(data_dir: str | None, config: str | None) -> "Quarantine":
    from holdfast.cli.attach import EXPECTED_ERRORS, report_error
    from holdfast.host.data_dir import find_data_directory
    from holdfast.sandbox.quarantine import Quarantine

    try:
        found = find_data_directory({"data_dir": data_dir, "config": config})
    except EXPECTED_ERRORS as error:
        raise typer.Exit(report_error(error)) from error
    return Quarantine(found.data_dir / "quarantine")


def _each(ids: list[str], act: "Callable[[str], QuarantinedFile]", done: str) -> int:
    from holdfast.cli.attach import FAILED, OK
    from holdfast.safe_text import safe_line
    from holdfast.sandbox.quarantine import NotInQuarantine

    code = OK
    for each in ids:
        try:
            file = act(each)
        except (NotInQuarantine, OSError) as error:
            print(f"holdfast: {safe_line(str(error))}", file=sys.stderr)
            code = FAILED
        else:
            print(f"{done}: {safe_line(file.path)}")
    return code
