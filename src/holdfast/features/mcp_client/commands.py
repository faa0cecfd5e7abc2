"""The commands about MCP; a command imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast.cli.options import Config, DataDir


def sign_in(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Server name from the configuration.")],
    forget: Annotated[bool, typer.Option("--forget", help="Delete the stored sign-in.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Sign in to an MCP server. Prints the URL of the sign-in page and waits for you.

    If your browser is on another machine, paste the URL of the page it ends on.
    """
    from holdfast.features.mcp_client.browser_sign_in import mcp_sign_in

    raise typer.Exit(mcp_sign_in({"data_dir": data_dir, "config": config}, name=name, forget=forget))
