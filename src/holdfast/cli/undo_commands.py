"""The commands about what runs changed; a command imports what it needs when it runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir, Run
from holdfast.cli.terminal.output import echo, echo_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.sandbox.quarantine import Quarantine, QuarantinedFile

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files that someone else changed since the run.")
]
KeepBoth = Annotated[
    bool,
    typer.Option("--keep-both", help="Keep a copy of each file that someone else changed since the run."),
]
KeepLog = Annotated[bool, typer.Option("--keep-log", help="Don't change the conversation.")]
quarantine_app = typer.Typer(
    help="Manage quarantine: protected files that sandboxed commands changed without approval.",
    short_help="List and restore quarantined files.",
    no_args_is_help=True,
)
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="File ids from `holdfast quarantine list`.")]


def diff(run: Run = "last", as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Show the files a run changed, and any paths its snapshots don't cover."""
    from holdfast.cli.changes import show_changes

    raise typer.Exit(
        show_changes({"data_dir": data_dir, "config": config}, run, form="json" if as_json else "text")
    )


def undo(
    run: Run = "last",
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Undo only these files, and leave the conversation unchanged."),
    ] = None,
    force: Force = False,
    keep_both: KeepBoth = False,
    keep_log: KeepLog = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the files and runs that would change."),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Restore the files a run changed, and rewind its session.

    Also undoes later runs of the session. If this would lose someone else's changes, it changes nothing and
    lists those files. To reverse an undo, use holdfast redo.
    """
    from holdfast.api.changes import UndoRequest
    from holdfast.cli.changes import preview_undo, undo_run

    wanted = UndoRequest(files=files or [], force=force, keep_both=keep_both, keep_log=keep_log)
    work = preview_undo if dry_run else undo_run
    raise typer.Exit(
        work({"data_dir": data_dir, "config": config}, run, wanted, form="json" if as_json else "text")
    )


def redo(
    run: Run = "last",
    force: Force = False,
    keep_log: KeepLog = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Reverse a run's latest undo."""
    from holdfast.api.changes import UndoRequest
    from holdfast.cli.changes import redo_run

    wanted = UndoRequest(force=force, keep_log=keep_log)
    raise typer.Exit(
        redo_run({"data_dir": data_dir, "config": config}, run, wanted, form="json" if as_json else "text")
    )


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
