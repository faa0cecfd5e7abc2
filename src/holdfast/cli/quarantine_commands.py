"""`holdfast quarantine`: list, restore and delete quarantined files."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir
from holdfast.cli.terminal.output import echo, echo_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.sandbox.quarantine import Quarantine, QuarantinedFile

quarantine_app = typer.Typer(
    help="Manage quarantine: protected files that sandboxed commands changed without approval.",
    short_help="List and restore quarantined files.",
    no_args_is_help=True,
)
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="File ids from `holdfast quarantine list`.")]


@quarantine_app.command("list", short_help="List quarantined files.")
def list_files(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List quarantined files, newest first, with their original and current paths."""
    from holdfast.cli.terminal.columns import print_columns, print_json, when

    files = [each.readable() for each in _quarantine(data_dir, config).files()]
    if as_json:
        print_json(files)
    else:
        rows = [(each.id, when(each.taken_at), each.path, each.kept) for each in files]
        print_columns(("ID", "TAKEN", "FROM", "NOW AT"), rows)


@quarantine_app.command("restore", short_help="Restore files to their original paths.")
def restore(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Restore files to their original paths. A file already there is moved to quarantine."""
    quarantine = _quarantine(data_dir, config)
    raise typer.Exit(_each(ids, quarantine, quarantine.restore, done="Restored"))


@quarantine_app.command("drop", short_help="Delete files from quarantine.")
def drop(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Permanently delete files from quarantine."""
    quarantine = _quarantine(data_dir, config)
    raise typer.Exit(_each(ids, quarantine, quarantine.drop, done="Deleted"))


def _quarantine(data_dir: str | None, config: str | None) -> "Quarantine":
    from holdfast.cli.attach import EXPECTED_ERRORS, report_error
    from holdfast.host.data_dir import find_data_directory
    from holdfast.sandbox.quarantine import Quarantine

    try:
        found = find_data_directory({"data_dir": data_dir, "config": config})
    except EXPECTED_ERRORS as error:
        raise typer.Exit(report_error(error)) from error
    return Quarantine(found.data_dir / "quarantine")


def _each(
    ids: list[str], quarantine: "Quarantine", act: "Callable[[str], QuarantinedFile]", *, done: str
) -> int:
    from holdfast.cli.attach import FAILED, OK
    from holdfast.cli.ids import AmbiguousName, resolve_id
    from holdfast.safe_text import safe_line
    from holdfast.sandbox.quarantine import NotInQuarantine

    code = OK
    for each in ids:
        try:
            file = act(resolve_id(each, [file.id for file in quarantine.files()], kind="file in quarantine"))
        except (AmbiguousName, NotInQuarantine, OSError) as error:
            echo_error(f"holdfast: {safe_line(str(error))}")
            code = FAILED
        else:
            echo(f"{done}: {safe_line(file.readable().path)}")
    return code
