"""`holdfast diff`, `undo` and `redo`; each imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir, Run

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files that someone else changed since the run.")
]
KeepBoth = Annotated[
    bool,
    typer.Option("--keep-both", help="Keep a copy of each file that someone else changed since the run."),
]
KeepLog = Annotated[bool, typer.Option("--keep-log", help="Don't change the conversation.")]


def diff(run: Run = "last", as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Show a run's file changes.

    Also lists paths that its snapshots don't cover.
    """
    from holdfast.features.undo.terminal import show_changes

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
    """Undo a run's file changes.

    Restores the files, and rewinds the session to before the run. Also undoes later runs of the session. If
    this would lose someone else's changes, it changes nothing and lists those files. To reverse an undo, use
    holdfast redo.
    """
    from holdfast.features.undo.operations import UndoRequest
    from holdfast.features.undo.terminal import preview_undo, undo_run

    request = UndoRequest(files=files or [], force=force, keep_both=keep_both, keep_log=keep_log)
    work = preview_undo if dry_run else undo_run
    raise typer.Exit(
        work({"data_dir": data_dir, "config": config}, run, request, form="json" if as_json else "text")
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
    from holdfast.features.undo.operations import UndoRequest
    from holdfast.features.undo.terminal import redo_run

    request = UndoRequest(force=force, keep_log=keep_log)
    raise typer.Exit(
        redo_run({"data_dir": data_dir, "config": config}, run, request, form="json" if as_json else "text")
    )
