"""The `holdfast memory` commands; each imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

memory_app = typer.Typer(
    help="Show, edit, roll back and forget memories. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="Show and change agents' memories.",
    no_args_is_help=True,
)
OfWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace", "-w", metavar="FOLDER", help="Memory about this folder, instead of about you."
    ),
]
OfChat = Annotated[
    str | None, typer.Option("--chat", metavar="CHAT", help="Memory of this chat, such as telegram/42.")
]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Proposal ids from `holdfast memory show`.")]


@memory_app.command("show")
def show(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Show memories and pending proposals. Without an option, show all of them."""
    from holdfast.features.memory import actions

    flags = {"data_dir": data_dir, "config": config}
    only = actions.place_of(workspace, chat) if workspace or chat else {}
    raise typer.Exit(actions.show(flags, only, form="json" if as_json else "text"))


@memory_app.command("accept")
def accept(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Accept proposed memories."""
    from holdfast.features.memory import actions

    raise typer.Exit(actions.decide({"data_dir": data_dir, "config": config}, ids, verdict="accept"))


@memory_app.command("reject")
def reject(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Reject proposed memories."""
    from holdfast.features.memory import actions

    raise typer.Exit(actions.decide({"data_dir": data_dir, "config": config}, ids, verdict="reject"))


@memory_app.command("edit")
def edit(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    note: Annotated[
        str, typer.Option(metavar="NAME", help="Note to edit, instead of the part that is always shown.")
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Edit a memory in your editor (VISUAL or EDITOR)."""
    from holdfast.features.memory import actions

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(actions.edit(flags, actions.place_of(workspace, chat), note))


@memory_app.command("history")
def history(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List changes to a memory, newest first."""
    from holdfast.features.memory import actions

    flags = {"data_dir": data_dir, "config": config}
    form = "json" if as_json else "text"
    raise typer.Exit(actions.history(flags, actions.place_of(workspace, chat), form=form))


@memory_app.command("rollback")
def rollback(
    to_seq: Annotated[int, typer.Argument(metavar="SEQ", help="Last change to keep; 0 discards all.")],
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Restore a memory to its state after a change."""
    from holdfast.features.memory import actions

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(actions.roll_back(flags, actions.place_of(workspace, chat), to_seq))


@memory_app.command("forget")
def forget(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Forget lines with this text. Default: all lines.")
    ] = "",
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    purge_sessions: Annotated[
        bool, typer.Option("--purge-sessions", help="Also permanently delete the sessions that contain it.")
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Delete a memory and its history. Lists the sessions that still contain it."""
    from holdfast.features.memory import actions

    flags = {"data_dir": data_dir, "config": config}
    sessions = "purge" if purge_sessions else "keep"
    raise typer.Exit(actions.forget(flags, actions.place_of(workspace, chat), text, sessions=sessions))


@memory_app.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="File to write. Default: standard output.")] = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Export all memories as Markdown."""
    from holdfast.features.memory import actions

    raise typer.Exit(actions.export({"data_dir": data_dir, "config": config}, file))
