"""Every command; a command imports what it needs when it runs, so that --version is quick."""

import sys
from typing import Annotated

import typer

from holdfast import __version__

app = typer.Typer(
    name="holdfast",
    help="Runs AI agents that do not get lost.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
chaos_app = typer.Typer(help="A model server that behaves badly on purpose, for anyone's tests.")
config_app = typer.Typer(help="The configuration.")
app.add_typer(chaos_app, name="chaos")
app.add_typer(config_app, name="config")

# None is "not given": then the environment, the file and the defaults count.
Config = Annotated[str | None, typer.Option(help="The configuration file.")]
DataDir = Annotated[str | None, typer.Option(help="Where everything is kept.")]
Host = Annotated[str | None, typer.Option(help="The address to listen on.")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; 0 picks a free one.")]
Workspace = Annotated[str | None, typer.Option(help="Where agents work.")]
Model = Annotated[str | None, typer.Option(help="The model of the default target.")]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Let everyone on this machine in.")]


def main() -> None:
    """The program."""
    if sys.argv[1:] == ["--version"]:
        print(f"holdfast {__version__}")
        return
    app()


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Runs AI agents that do not get lost."""
    if version:
        print(f"holdfast {__version__}")
        raise typer.Exit


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    config: Config = None,
    workspace: Workspace = None,
    model: Model = None,
    no_auth: NoAuth = False,
) -> None:
    """Run the server."""
    from holdfast.cli.serve import serve as run

    flags = {
        "host": host,
        "port": port,
        "data_dir": data_dir,
        "config": config,
        "agent_workspace": workspace,
        "model": model,
        "no_auth": no_auth or None,
    }
    raise typer.Exit(run(flags))


@app.command()
def inspect(
    session: Annotated[str, typer.Argument(help="A session, a run, or an exported .jsonl file.")],
    data_dir: DataDir = None,
) -> None:
    """Print a session's log as a timeline: what happened, when, and where the time went."""
    from holdfast.cli.inspect import inspect as run

    raise typer.Exit(run(session, data_dir=data_dir))


@config_app.command("check")
def config_check(config: Config = None) -> None:
    """Print the effective values and where each comes from."""
    from holdfast.cli.config_check import check

    raise typer.Exit(check({"config": config}))


@chaos_app.command("serve")
def chaos_serve(
    host: Annotated[str, typer.Option()] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 picks a free one.")] = 8199,
    script: Annotated[str | None, typer.Option(help="What to do with every request; see below.")] = None,
) -> None:
    """Serve a bad model: name a scenario as the model (chaos/stall), or give a script.

    A script is steps with `;` between them and attempts with `|` between them, for example:
    say The answer is; hang | say The answer is 42.
    """
    from holdfast.cli.chaos import serve_until_stopped

    raise typer.Exit(serve_until_stopped(host, port, script=script))
