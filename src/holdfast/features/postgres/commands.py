"""The commands that copy a store, and list the servers that share it."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

if TYPE_CHECKING:
    from holdfast.api.nodes import NodeShown

store_app = typer.Typer(help="Copy a store.", no_args_is_help=True)


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
    from holdfast.features.postgres.copy_command import copy_store

    raise typer.Exit(copy_store(source, target, flags={"config": config}))


def nodes(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the servers that share the store, with the number of sessions on each."""
    from holdfast.cli.attach import OK, Attached, with_running_server
    from holdfast.cli.terminal.columns import print_columns, print_json

    async def work(attached: Attached) -> int:
        found = await attached.client.nodes()
        if as_json:
            print_json(found)
        else:
            headings = ("NODE", "SESSIONS", "LEASE", "URL", "HOMES", "LACKS")
            print_columns(headings, [_node(one) for one in found])
        return OK

    raise typer.Exit(with_running_server({"data_dir": data_dir, "config": config}, work))


def _node(one: "NodeShown") -> tuple[str, ...]:
    name = f"{one.name or 'this server'}{' (this one)' if one.is_this and one.name else ''}"
    return (
        name,
        str(one.sessions),
        _lease(one.lease_left_s),
        one.url,
        " ".join(one.homes),
        " ".join(one.lacks),
    )


def _lease(left_s: float | None) -> str:
    if left_s is None:
        return "none needed"
    return f"{left_s:g} s" if left_s else "expired"
