"""The commands about what runs changed; a command imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir, Run

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files that someone else changed since the run.")
]
KeepBoth = Annotated[
    bool, typer.Option("--keep-both", help="Keep a copy beside each file that someone else changed since.")
]
KeepLog = Annotated[bool, typer.Option("--keep-log", help="Leave the conversation as it is.")]


def diff(run: Run = "last", as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Show the files that a run (by default the last one) changed, and what its snapshots don't cover."""
    from holdfast.cli.changes import show_changes

    raise typer.Exit(
        show_changes({"data_dir": data_dir, "config": config}, run, form="json" if as_json else "text")
    )


def undo(
    run: Run = "last",
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Only these files; the conversation stays as it is."),
    ] = None,
    force: Force = False,
    keep_both: KeepBoth = False,
    keep_log: KeepLog = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Put the files that a run (by default the last one) changed back, and rewind its session.

    Later runs of the session are undone with it. Nothing happens if that would lose changes that someone else
    made; then the files are named. An undo can be undone with holdfast redo.
    """
    from holdfast.api.changes import UndoRequest
    from holdfast.cli.changes import undo_run

    wanted = UndoRequest(files=files or [], force=force, keep_both=keep_both, keep_log=keep_log)
    raise typer.Exit(
        undo_run({"data_dir": data_dir, "config": config}, run, wanted, form="json" if as_json else "text")
    )


def redo(
    run: Run = "last",
    force: Force = False,
    keep_log: KeepLog = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Bring back what the newest undo of a run (by default the last one) took away."""
    from holdfast.api.changes import UndoRequest
    from holdfast.cli.changes import redo_run

    wanted = UndoRequest(force=force, keep_log=keep_log)
    raise typer.Exit(
        redo_run({"data_dir": data_dir, "config": config}, run, wanted, form="json" if as_json else "text")
    )
