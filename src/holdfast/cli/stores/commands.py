"""The commands for a whole store, and for the servers that share it."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

store_app = typer.Typer(help="Check or copy a store.", no_args_is_help=True)


@store_app.command("copy", short_help="Copy a store to a Postgres database, or back to a file.")
def store_copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="Data directory, postgresql:// URL, or env:NAME for a URL in a variable.",
        ),
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Destination, in the same form. Must be empty.")
    ],
    config: Config = None,
) -> None:
    """Copy a store to an empty one, and verify the copy event by event.

    First stop all servers that use either store. If the copy is interrupted, TO stays empty: start again.
    If the configuration sets a bucket, it holds the large blobs of a database.
    """
    from holdfast.cli.stores.copy import copy_store

    raise typer.Exit(copy_store(source, target, flags={"config": config}))


@store_app.command("check", short_help="Check every log and blob, and show how to repair the store.")
def store_check(data_dir: DataDir = None, config: Config = None) -> None:
    """Read the store, verify each event and blob, apply each log as a server does, and show how to repair it.

    Nothing is changed. The server can be running, but stop all servers that share a Postgres database. Exit
    codes: 0 intact, 1 faults, 2 usage error.
    """
    from holdfast.cli.stores.check import check

    raise typer.Exit(check({"data_dir": data_dir, "config": config}))


def upgrade_check(data_dir: DataDir = None, config: Config = None) -> None:
    """Check whether this version can take over the data of the one that you use now.

    Run it with the new version before you install it, for example with `uvx holdfast@VERSION upgrade-check`.
    It reads the configuration and every log, and changes nothing. Exit codes: 0 yes, 1 no, 2 usage error.
    """
    from holdfast.cli.stores.check import upgrade_check as check

    raise typer.Exit(check({"data_dir": data_dir, "config": config}))


def nodes(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the servers that share the store, with the number of sessions on each."""
    from holdfast.cli.sessions import list_nodes

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(list_nodes(flags, form="json" if as_json else "text"))
