"""Every command, and the edge where the environment is read; a command imports what it needs when it runs."""

import sys
from pathlib import Path
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
app.add_typer(chaos_app, name="chaos")

DataDir = Annotated[Path, typer.Option(envvar="HOLDFAST_DATA_DIR", help="Where everything is kept.")]
DEFAULT_DATA_DIR = Path("~/.local/share/holdfast")


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
    host: Annotated[str, typer.Option(envvar="HOLDFAST_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="HOLDFAST_PORT", help="0 picks a free one.")] = 8642,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Run the server."""
    from holdfast.cli.serve import serve as run

    raise typer.Exit(run(host, port, data_dir=data_dir.expanduser()))


@app.command()
def inspect(
    session: Annotated[str, typer.Argument(help="A session, or a run, or an exported .jsonl file.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print a session's log as a timeline: what happened, when, and where the time went."""
    from holdfast.cli.inspect import inspect as run

    raise typer.Exit(run(session, data_dir=data_dir.expanduser()))


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
