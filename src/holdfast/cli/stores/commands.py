"""`holdfast store …`: the commands for a whole store."""

from typing import Annotated

import typer

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
) -> None:
    """Copy everything from one store to an empty one, and verify the copy event by event.

    Stop the servers that use either store first. If it is interrupted, nothing is left in TO: start again.
    """
    from holdfast.cli.stores.copy import copy_store

    raise typer.Exit(copy_store(source, target))
