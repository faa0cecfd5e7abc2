"""The commands for a whole store, and for the servers that share it."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

store_app = typer.Typer(help="Work on a whole store.", no_args_is_help=True)


@store_app.command("copy", short_help="Copy a store to a Postgres database, or back to a file.")
def store_copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A data directory, a postgresql:// address, or env:NAME for one in a variable.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same; it must be empty.")],
    config: Config = None,
) -> None:
    """Copy everything from one store to an empty one, and verify the copy event by event.

    Stop the servers that use either store first. If it is interrupted, nothing is left in TO: start again.
    Large blobs of a database are in the bucket that the configuration names, if it names one.
    """
    from holdfast.cli.stores.copy import copy_store

    raise typer.Exit(copy_store(source, target, flags={"config": config}))


def nodes(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the servers that share the store, and how many sessions each works on."""
    from holdfast.cli.stores.nodes import list_nodes

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(list_nodes(flags, form="json" if as_json else "text"))
