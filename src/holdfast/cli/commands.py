"""Every command; a command imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast import __version__
from holdfast.cli import launch as starting
from holdfast.cli.option_types import AsJson, Config, DataDir, Model, Session, Workspace
from holdfast.cli.record_commands import approvals_app, keys_app, runs_app, sessions_app

app = typer.Typer(
    name="holdfast",
    help="Runs AI agents that do not get lost. Without a command: chat in the terminal.",
    no_args_is_help=False,
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help reads the same in a terminal, a pipe and an old log
)
chaos_app = typer.Typer(
    help="A model server that behaves badly on purpose, for anyone's tests.",
    short_help="A model server that behaves badly, for tests.",
    no_args_is_help=True,
)
config_app = typer.Typer(
    help="The configuration: what counts, and which files are trusted.",
    short_help="What is configured, and which files count.",
    no_args_is_help=True,
)
import_app = typer.Typer(help="Take over from another program.", no_args_is_help=True)
app.add_typer(chaos_app, name="chaos")
app.add_typer(config_app, name="config")
app.add_typer(import_app, name="import")
app.add_typer(runs_app, name="runs")
app.add_typer(sessions_app, name="sessions")
app.add_typer(approvals_app, name="approvals")
app.add_typer(keys_app, name="keys")

# None is "not given": then the environment, the file and the defaults count.
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Let everyone on this machine in.")]

RUN_EXAMPLES = """Examples:

holdfast run 'why does make test fail?'

git diff | holdfast run 'review this:' -

holdfast run --json 'list the files' | jq -r .type
"""


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Runs AI agents that do not get lost. Without a command: chat in the terminal."""
    if version:
        print(f"holdfast {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        chat()


@app.command(short_help="Run the server, with the page.")
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
    wanted = starting.Serve(
        host=host,
        port=port,
        data_dir=data_dir,
        config=config,
        workspace=workspace,
        model=model,
        no_auth=no_auth,
    )
    raise typer.Exit(starting.start(wanted))


@app.command("sign-in", short_help="Print a link that signs a browser in.")
def sign_in(
    url: Annotated[
        str, typer.Option(metavar="URL", help="The server's address as your browser reaches it, if another.")
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Print a link for the page of the server that runs: it signs one browser in, once, within ten minutes.

    In a container: docker exec NAME holdfast sign-in --url http://localhost:8642
    """
    from holdfast.cli.sign_in import sign_in as command

    raise typer.Exit(command({"data_dir": data_dir, "config": config}, url=url))


@app.command(short_help="Talk in the terminal.")
def chat(
    session: Session = "",
    model: Model = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Talk in the terminal: on the server that runs, or on one of its own.

    Ctrl-C stops a run, twice leaves. What runs when you leave goes on; --session brings you back to it.
    """
    wanted = starting.Chat(
        session=session, model=model, workspace=workspace, data_dir=data_dir, config=config
    )
    raise typer.Exit(starting.start(wanted))


@app.command(epilog=RUN_EXAMPLES, short_help="Do one task and print the answer.")
def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="The task; - stands for the standard input.")
    ] = None,
    session: Session = "",
    as_json: AsJson = False,
    model: Model = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Do one task and print the answer; with --json every event as a line.

    Exit code: 0 completed, 1 failed or refused, 2 used wrongly, 130 stopped. Ctrl-C stops the run, and
    so do SIGTERM and a terminal that is closed.
    """
    wanted = starting.Run(
        words=words or [],
        session=session,
        as_json=as_json,
        model=model,
        workspace=workspace,
        data_dir=data_dir,
        config=config,
    )
    raise typer.Exit(starting.start(wanted))


@app.command(short_help="Where the time of a run or a session went.")
def inspect(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A run, a session, last, or a .jsonl file of events.")
    ] = "last",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Print a run, the last one if none is named, or a session as a timeline: where the time went."""
    from holdfast.cli.inspect import inspect as run

    raise typer.Exit(run(name, {"data_dir": data_dir, "config": config}))


@app.command(short_help="Check everything here, and say what to do.")
def doctor(
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no model.")] = False,
) -> None:
    """Check targets, disk, store, port and limits, and say what to do. Exit code 1 if there is a fault."""
    from holdfast.cli.doctor import command

    paper = command.JsonPaper() if as_json else None
    ask = command.ask_nobody if offline else command.ask_targets
    raise typer.Exit(command.doctor({"config": config, "data_dir": data_dir}, paper=paper, ask=ask))


@app.command(short_help="A tour of what goes wrong, and what you see of it.")
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Without pauses, and with little patience.")] = False,
) -> None:
    """A tour of what goes wrong and what you see of it: stall, drop, 429, stop, kill -9. Needs no key."""
    from holdfast.cli.demo.acts import CALM, FAST
    from holdfast.cli.demo.tour import demo as run

    raise typer.Exit(run(FAST if fast else CALM))


@import_app.command("hermes", short_help="Take over from hermes-agent and its web UI.")
def import_hermes(
    home: Annotated[
        str | None, typer.Argument(metavar="HOME", help="Its home; else HERMES_HOME, else ~/.hermes.")
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be taken.")] = False,
) -> None:
    """Take targets, keys and sessions from hermes-agent and its web UI; nothing is changed there."""
    from holdfast.cli.hermes.command import import_hermes as run

    flags = {"data_dir": data_dir, "config": config}
    raise typer.Exit(run(home, flags, how="try" if dry_run else "do"))


@config_app.command("check", short_help="Print what counts, and why.")
def config_check(config: Config = None) -> None:
    """Print the effective values and where each comes from."""
    from holdfast.cli.config_check import check

    raise typer.Exit(check({"config": config}))


@config_app.command("trust", short_help="Let a directory's file count.")
def config_trust(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The file or its directory; else the one here.")
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Let it no longer count.")] = False,
) -> None:
    """Let the holdfast.toml of a directory count whenever Holdfast starts there."""
    from holdfast.cli.config_trust import distrust, trust

    raise typer.Exit(distrust(file) if forget else trust(file))


@chaos_app.command("serve", short_help="Serve a bad model.")
def chaos_serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="0 picks a free one.")] = 8199,
    script: Annotated[
        str | None, typer.Option(metavar="STEPS", help="What to do with every request; see above.")
    ] = None,
) -> None:
    """Serve a bad model: name a scenario as the model (chaos/stall), or give a script.

    A script is steps with `;` between them and attempts with `|` between them, for example:
    say The answer is; hang | say The answer is 42.
    """
    from holdfast.cli.chaos import serve_until_stopped

    raise typer.Exit(serve_until_stopped(host, port, script=script))
