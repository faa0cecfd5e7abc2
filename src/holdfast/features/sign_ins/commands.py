"""`holdfast auth`: sign in to use a subscription for models; a command imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

auth_app = typer.Typer(
    help="Sign in with a subscription, for targets with `auth`. To sign a browser in to your server, run "
    "`holdfast sign-in`; for MCP servers, `holdfast mcp-sign-in`. Exit codes: 0 success, 1 failure, 2 usage "
    "error.",
    short_help="Sign in with a ChatGPT, Copilot or Nous subscription.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Subscription: codex, copilot or nous.")]
File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="Sign-in file. Default: auth.json in CODEX_HOME or ~/.codex."),
]


@auth_app.command("login")
def login(name: Name, data_dir: DataDir = None, config: Config = None) -> None:
    """Sign in. Prints a URL and a code, and waits until you enter the code there."""
    from holdfast.features.sign_ins import actions

    raise typer.Exit(actions.login({"data_dir": data_dir, "config": config}, name))


@auth_app.command("import")
def import_codex(file: File = None, data_dir: DataDir = None, config: Config = None) -> None:
    """Copy the sign-in of the Codex CLI. Its file isn't changed.

    Both programs then share one refresh token, and the first that renews it signs the other out. To keep both
    signed in, run `holdfast auth login codex` instead.
    """
    from holdfast.features.sign_ins import actions

    raise typer.Exit(actions.import_codex({"data_dir": data_dir, "config": config}, file))


@auth_app.command("status")
def status(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the sign-ins and when their tokens expire."""
    from holdfast.features.sign_ins import actions

    form = "json" if as_json else "text"
    raise typer.Exit(actions.status({"data_dir": data_dir, "config": config}, form=form))


@auth_app.command("logout")
def logout(name: Name, data_dir: DataDir = None, config: Config = None) -> None:
    """Delete a sign-in, and revoke it if its issuer supports that."""
    from holdfast.features.sign_ins import actions

    raise typer.Exit(actions.logout({"data_dir": data_dir, "config": config}, name))
