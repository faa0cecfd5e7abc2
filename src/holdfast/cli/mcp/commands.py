"""The commands about MCP; a command imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast.cli.options import Config, DataDir


def sign_in(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server's name in the configuration.")],
    forget: Annotated[bool, typer.Option("--forget", help="Delete what is kept of the sign-in.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Sign in to an MCP server that wants it. Prints the address of the sign-in page, and waits for you.

    The browser may be on another machine: then paste the address of the page that it ends on.
    """
    from holdfast.cli.mcp.sign_in import mcp_sign_in

    raise typer.Exit(mcp_sign_in({"data_dir": data_dir, "config": config}, name=name, forget=forget))
