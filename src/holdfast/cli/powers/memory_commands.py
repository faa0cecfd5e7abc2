"""The commands of `holdfast memory`; a command imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

memory_app = typer.Typer(
    help="See, edit, roll back and forget what agents remember. Exit codes: 0 success, 1 failure, 2 usage.",
    short_help="See and change what agents remember.",
    no_args_is_help=True,
)
OfWorkspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="The memory about this folder, not about you."),
]
OfChat = Annotated[
    str | None, typer.Option("--chat", metavar="CHAT", help="The memory of this chat, such as telegram/42.")
]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="As `holdfast memory show` prints them.")]


@memory_app.command("show")
def show(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Show what is remembered, and what agents propose to remember; without an option, all of it."""
    from holdfast.cli.powers import memory

    flags = {"data_dir": data_dir, "config": config}
    only = memory.place_of(workspace, chat) if workspace or chat else {}
    raise typer.Exit(memory.show(flags, only, form="json" if as_json else "text"))


@memory_app.command("accept")
def accept(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Remember what was proposed."""
    from holdfast.cli.powers import memory

    raise typer.Exit(memory.decide({"data_dir": data_dir, "config": config}, ids, verdict="accept"))


@memory_app.command("reject")
def reject(ids: Ids, data_dir: DataDir = None, config: Config = None) -> None:
    """Don't remember what was proposed."""
    from holdfast.cli.powers import memory

    raise typer.Exit(memory.decide({"data_dir": data_dir, "config": config}, ids, verdict="reject"))


@memory_app.command("edit")
def edit(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    note: Annotated[str, typer.Option(metavar="NAME", help="A note, not what is always shown.")] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Edit a memory in your editor (VISUAL or EDITOR)."""
    from holdfast.cli.powers import memory

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(memory.edit(flags, memory.place_of(workspace, chat), note))


@memory_app.command("history")
def history(
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List the changes of a memory, newest first."""
    from holdfast.cli.powers import memory

    flags = {"data_dir": data_dir, "config": config}
    form = "json" if as_json else "text"
    raise typer.Exit(memory.history(flags, memory.place_of(workspace, chat), form=form))


@memory_app.command("rollback")
def rollback(
    to_seq: Annotated[int, typer.Argument(metavar="SEQ", help="The last change that is to count; 0: none.")],
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Make a memory exactly what it was after a change."""
    from holdfast.cli.powers import memory

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(memory.roll_back(flags, memory.place_of(workspace, chat), to_seq))


@memory_app.command("forget")
def forget(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Forget lines with this; empty: all.")] = "",
    workspace: OfWorkspace = None,
    chat: OfChat = None,
    purge_sessions: Annotated[
        bool, typer.Option("--purge-sessions", help="Also remove the sessions that contain it, for good.")
    ] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Remove a memory with its history, and name the sessions that still contain it."""
    from holdfast.cli.powers import memory

    flags = {"data_dir": data_dir, "config": config}
    sessions = "purge" if purge_sessions else "keep"
    raise typer.Exit(memory.forget(flags, memory.place_of(workspace, chat), text, sessions=sessions))


@memory_app.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to write it; by default, it is printed.")] = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Write everything that is remembered as Markdown."""
    from holdfast.cli.powers import memory

    raise typer.Exit(memory.export({"data_dir": data_dir, "config": config}, file))
