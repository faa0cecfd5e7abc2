"""Every command; a command imports what it needs when it runs."""

from typing import Annotated, Literal, cast

import typer

from holdfast import __version__
from holdfast.catalog import FEATURES
from holdfast.cli import launch as starting
from holdfast.cli import quarantine_commands
from holdfast.cli.options import (
    STATUSES,
    Agent,
    AsJson,
    Config,
    Conversation,
    DataDir,
    Effort,
    Host,
    KeyName,
    KeyScope,
    Limit,
    MaxTokens,
    Model,
    NoAuth,
    PermissionMode,
    Port,
    Profile,
    RuleSession,
    Run,
    RunModel,
    Session,
    Temperature,
    Workspace,
)
from holdfast.cli.stores import commands as store_commands
from holdfast.cli.terminal.output import echo

SCOPES = ("chat", "approve", "admin", "relay")
CODES = "Exit codes: 0 success, 1 failure (for example an unknown id), 2 usage error."


def _group(about: str) -> typer.Typer:
    return typer.Typer(help=f"{about} {CODES}", short_help=about, no_args_is_help=True)


app = typer.Typer(
    name="holdfast",
    help="Run AI agents that don't get lost. Without a command, start a chat in the terminal.",
    no_args_is_help=False,
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help reads the same in a terminal, a pipe and an old log
)
config_app = typer.Typer(
    help="Show the settings in effect and trust configuration files.",
    short_help="Show settings and trust configuration files.",
    no_args_is_help=True,
)
chaos_app = typer.Typer(help="Run a faulty model server for your tests.", no_args_is_help=True)
runs_app = _group("List, show, follow, stop and retry runs.")
sessions_app = _group("List, search, show, export, move and delete sessions.")
approvals_app = _group("List and answer approvals and questions.")
keys_app = _group("List, add and revoke API keys.")

app.add_typer(chaos_app, name="chaos")
app.add_typer(config_app, name="config")
app.add_typer(runs_app, name="runs")
app.add_typer(sessions_app, name="sessions")
app.add_typer(approvals_app, name="approvals")
app.add_typer(keys_app, name="keys")
app.add_typer(quarantine_commands.quarantine_app, name="quarantine")
app.add_typer(store_commands.store_app, name="store")
RUN_EXAMPLES = """Examples:

holdfast run 'why does make test fail?'

git diff | holdfast run 'review this diff'

holdfast run --json 'list the files' | jq -r .type
"""


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    _profile: Profile = "",
) -> None:
    """Run AI agents that don't get lost. Without a command, start a chat in the terminal."""
    if version:
        echo(f"holdfast {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        chat()


@app.command(short_help="Run the server and the web page.")
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    config: Config = None,
    workspace: Workspace = None,
    model: Model = None,
    no_auth: NoAuth = False,
) -> None:
    """Run the server and the web page."""
    wanted = starting.ServeCommand(
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
        str, typer.Option(metavar="URL", help="Server URL as your browser sees it, if different.")
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Print a link that signs a browser in to the running server. It works once, for ten minutes.

    In a container: docker exec NAME holdfast sign-in --url http://localhost:8642
    """
    from holdfast.cli.keys import sign_in as command

    raise typer.Exit(command({"data_dir": data_dir, "config": config}, url=url))


@app.command(short_help="Chat in the terminal.")
def chat(
    session: Session = "",
    mode: PermissionMode = "",
    effort: Effort = "",
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    agent: Agent = "",
    model: RunModel = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Chat in the terminal. Uses the running server, or starts its own.

    Ctrl-C stops the run; press it twice to quit. Runs continue after you quit. To reopen a session, use
    --session.
    """
    wanted = starting.ChatCommand(
        session=session,
        mode=mode,
        effort=effort,
        temperature=temperature,
        max_tokens=max_tokens,
        agent=agent,
        model=model,
        workspace=workspace,
        data_dir=data_dir,
        config=config,
    )
    raise typer.Exit(starting.start(wanted))


@app.command(epilog=RUN_EXAMPLES, short_help="Run one task and print the answer.")
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORDS", help="Task to run. Text on standard input is appended, or replaces -."
        ),
    ] = None,
    session: Session = "",
    mode: PermissionMode = "",
    effort: Effort = "",
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    agent: Agent = "",
    as_json: AsJson = False,
    model: RunModel = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Run one task and print the answer. With --json, print one event per line.

    Text from a pipe or file (up to 8 MB, UTF-8) is appended between <stdin> and </stdin>. In a loop that
    reads standard input, add </dev/null.

    Exit codes: 0 completed, 1 failed or refused, 2 usage error, 3 completed without an action that no one
    could approve (standard error names it and how to allow it), 130 stopped. Ctrl-C, SIGTERM and closing the
    terminal stop the run.
    """
    wanted = starting.RunCommand(
        words=words or [],
        session=session,
        mode=mode,
        effort=effort,
        temperature=temperature,
        max_tokens=max_tokens,
        agent=agent,
        as_json=as_json,
        model=model,
        workspace=workspace,
        data_dir=data_dir,
        config=config,
    )
    raise typer.Exit(starting.start(wanted))


@app.command(short_help="Show a time breakdown of a run or session.")
def inspect(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Run id, session id, last (the newest run), or a .jsonl file of events."
        ),
    ] = "last",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Print a timeline of a run or session that shows where the time went."""
    from holdfast.cli.sessions import inspect as run

    raise typer.Exit(run(name, {"data_dir": data_dir, "config": config}))


app.command("upgrade-check", short_help="Check whether this version can use your data.")(
    store_commands.upgrade_check
)


@app.command(short_help="Check this installation and suggest fixes.")
def doctor(
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Call no models or MCP servers.")] = False,
) -> None:
    """Check targets, disk, store, port and limits, and suggest fixes. Exits with 1 if a check fails."""
    from holdfast.cli.doctor import command

    report = command.JsonReport() if as_json else None
    ask, ask_others = command.NOBODY if offline else command.EVERYBODY
    flags = _flags(data_dir, config)
    raise typer.Exit(command.doctor(flags, report=report, ask=ask, ask_others=ask_others))


@app.command(short_help="Watch Holdfast handle failures.")
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Skip pauses and use short deadlines.")] = False,
) -> None:
    """Watch Holdfast handle failures: a stall, a dropped stream, a 429, a stop, kill -9. Needs no API key."""
    from holdfast.cli.demo.acts import CALM, FAST
    from holdfast.cli.demo.tour import demo as run

    raise typer.Exit(run(FAST if fast else CALM))


@config_app.command("check", short_help="Print the settings and their sources.")
def config_check(config: Config = None) -> None:
    """Print the settings in effect and the source of each."""
    from holdfast.cli.configuration import check

    raise typer.Exit(check({"config": config}))


@config_app.command("trust", short_help="Trust a directory's configuration file.")
def config_trust(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="File, or its directory. Default: the current directory."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
) -> None:
    """Trust a directory's holdfast.toml, so Holdfast uses it when started there."""
    from holdfast.cli.configuration import distrust, trust

    raise typer.Exit(distrust(file) if forget else trust(file))


def _flags(data_dir: str | None, config: str | None) -> dict[str, object]:
    return {"data_dir": data_dir, "config": config}


def _form(as_json: bool) -> str:
    return "json" if as_json else "text"


@runs_app.command("list", epilog="Example: holdfast runs list --status waiting_for_approval")
def runs_list(
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="Only runs of this session.")
    ] = "",
    status: Annotated[
        str,
        typer.Option(
            metavar="STATUS",
            help=f"Only runs with this status: {', '.join(STATUSES[:-1])} or {STATUSES[-1]}. "
            "waiting_for_approval includes runs with an open question. paused means in progress while no "
            "server is running.",
        ),
    ] = "",
    limit: Limit = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List runs, newest first."""
    from holdfast.cli.runs import list_runs

    if status and status not in STATUSES:
        raise typer.BadParameter(f"must be one of {', '.join(STATUSES)}", param_hint="--status")
    flags = _flags(data_dir, config)
    raise typer.Exit(list_runs(flags, session=session, status=status, limit=limit, form=_form(as_json)))


@runs_app.command("show", short_help="Show a run.")
def runs_show(run: Run, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Show a run: its status, usage and answer."""
    from holdfast.cli.runs import show_run

    raise typer.Exit(show_run(_flags(data_dir, config), run, form=_form(as_json)))


@runs_app.command("tail", epilog="Example: holdfast runs tail run_… --json | jq -r .type")
def runs_tail(run: Run, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Follow a run from start to end. Quitting doesn't stop it.

    Exit codes: 0 completed, 1 failed or refused, 130 stopped.
    """
    from holdfast.cli.runs import tail_run

    raise typer.Exit(tail_run(_flags(data_dir, config), run, form=_form(as_json)))


@runs_app.command("stop", short_help="Stop a run.")
def runs_stop(run: Run, data_dir: DataDir = None, config: Config = None) -> None:
    """Stop a run and wait until everything it started has ended."""
    from holdfast.cli.runs import stop_run

    raise typer.Exit(stop_run(_flags(data_dir, config), run))


@runs_app.command("retry")
def runs_retry(
    run: Run,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="Copy of the run's session to retry in.")
    ] = "",
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Run the same input again and print the answer.

    Exit codes: 0 completed, 1 failed or refused, 3 completed without an action that no one could approve,
    130 stopped.
    """
    from holdfast.cli.runs import retry_run

    raise typer.Exit(retry_run(_flags(data_dir, config), run, session=session, form=_form(as_json)))


@sessions_app.command("list", epilog="Example: holdfast sessions list --json | jq -r '.[].session_id'")
def sessions_list(
    archived: Annotated[bool, typer.Option("--archived", help="List archived sessions.")] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List sessions, newest first."""
    from holdfast.cli.sessions import list_sessions

    shown = "true" if archived else ""
    flags = _flags(data_dir, config)
    raise typer.Exit(list_sessions(flags, words="", archived=shown, limit=limit, form=_form(as_json)))


@sessions_app.command("search", epilog="Example: holdfast sessions search disk full")
def sessions_search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words to search for.")],
    limit: Limit = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Search the text of all sessions."""
    from holdfast.cli.sessions import list_sessions

    flags = _flags(data_dir, config)
    raise typer.Exit(
        list_sessions(flags, words=" ".join(words), archived="", limit=limit, form=_form(as_json))
    )


@sessions_app.command("show")
def sessions_show(
    session: Conversation,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, max=500, metavar="N", help="Number of latest entries to show."),
    ] = 100,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Show a session."""
    from holdfast.cli.sessions import show_session

    raise typer.Exit(show_session(_flags(data_dir, config), session, limit=limit, form=_form(as_json)))


@sessions_app.command("export", epilog="Example: holdfast sessions export ID --format md -o talk.md")
def sessions_export(
    session: Conversation,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORM", help="json (complete), md or html (readable).")
    ] = "json",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="File to write. Default: standard output."),
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Export a session as JSON, Markdown or HTML."""
    from holdfast.cli.sessions import export_session

    if form not in {"json", "md", "html"}:
        raise typer.BadParameter("must be json, md or html", param_hint="--format")
    kind = cast("Literal['json', 'md', 'html']", form)
    raise typer.Exit(export_session(_flags(data_dir, config), session, form=kind, output=output))


@sessions_app.command("move", short_help="Move a session off a dead server.")
def sessions_move(session: Conversation, data_dir: DataDir = None, config: Config = None) -> None:
    """Move a session off a dead server. The files on the new server may differ."""
    from holdfast.cli.sessions import move_session

    raise typer.Exit(move_session(_flags(data_dir, config), session))


@sessions_app.command("delete")
def sessions_delete(
    session: Conversation,
    now: Annotated[bool, typer.Option("--now", help="Delete it permanently, right away.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Delete a session and stop its runs."""
    from holdfast.cli.sessions import delete_session

    raise typer.Exit(delete_session(_flags(data_dir, config), session, how="now" if now else "soon"))


@approvals_app.command("list")
def approvals_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List pending approvals and questions."""
    from holdfast.cli.approvals import list_asks

    raise typer.Exit(list_asks(_flags(data_dir, config), form=_form(as_json)))


@approvals_app.command(
    "answer", epilog="Example: holdfast approvals answer apr_… deny --reason 'not on Fridays'"
)
def approvals_answer(
    ask: Annotated[
        str,
        typer.Argument(metavar="ASK", help="Approval (apr_…) or question (que_…) id, or a unique prefix."),
    ],
    answer: Annotated[
        str,
        typer.Argument(
            metavar="ANSWER",
            help="once, session, 'session similar', always or deny. For a question: your answer.",
        ),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for denying, sent to the model.")] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Answer an approval or a question."""
    from holdfast.cli.approvals import answer_ask

    raise typer.Exit(answer_ask(_flags(data_dir, config), ask, answer, reason=reason))


@approvals_app.command("rules", short_help="List standing approval rules.")
def approvals_rules(
    session: RuleSession = "", as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """List the rules you created by answering "always", or "session" in one session or in all."""
    from holdfast.cli.approvals import list_rules

    raise typer.Exit(list_rules(_flags(data_dir, config), session=session, form=_form(as_json)))


@approvals_app.command(
    "revoke", short_help="Revoke a standing rule.", epilog="Example: holdfast approvals revoke gra_…"
)
def approvals_revoke(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Rule id (gra_…), or a unique prefix.")],
    session: RuleSession = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Revoke a standing rule. Actions it allowed need approval again."""
    from holdfast.cli.approvals import revoke_rule

    raise typer.Exit(revoke_rule(_flags(data_dir, config), rule, session=session))


@keys_app.command("list", short_help="List API keys.")
def keys_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List API keys by name. The keys themselves are never shown again."""
    from holdfast.cli.keys import list_keys

    raise typer.Exit(list_keys(_flags(data_dir, config), form=_form(as_json)))


@keys_app.command("add", epilog="Example: KEY=$(holdfast keys add laptop --scope chat --scope approve)")
def keys_add(
    name: KeyName,
    scope: KeyScope = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Create an API key and print it once."""
    from holdfast.cli.keys import add_key

    if unknown := [one for one in scope or () if one not in SCOPES]:
        text = f"must be one of {', '.join(SCOPES)}, not {unknown[0]}"
        raise typer.BadParameter(text, param_hint="--scope")
    flags = _flags(data_dir, config)
    raise typer.Exit(add_key(flags, name, scopes=scope or (), form=_form(as_json)))


@keys_app.command("revoke")
def keys_revoke(name: KeyName, data_dir: DataDir = None, config: Config = None) -> None:
    """Revoke an API key immediately."""
    from holdfast.cli.keys import revoke_key

    raise typer.Exit(revoke_key(_flags(data_dir, config), name))


@chaos_app.command("serve", short_help="Serve a faulty model.")
def chaos_serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8199,
    script: Annotated[
        str | None, typer.Option(metavar="STEPS", help="Steps for each request; see above.")
    ] = None,
) -> None:
    """Serve a faulty model. Use a scenario as the model name (chaos/stall), or pass a script.

    In a script, separate steps with `;` and attempts with `|`, for example:
    say The answer is; hang | say The answer is 42.
    """
    from holdfast.chaos.serve import serve_until_stopped

    raise typer.Exit(serve_until_stopped(host, port, script=script))


@app.command(
    short_help="Read the documentation.",
    epilog="Examples:\n\nholdfast docs\n\nholdfast docs channels\n\nholdfast docs 'Retry-After'",
)
def docs(
    topic: Annotated[
        str,
        typer.Argument(metavar="[TOPIC]", help="Page to show, or words to search for. Default: the index."),
    ] = "",
) -> None:
    """Read the documentation of this version. It's part of the package, so this needs no network."""
    from holdfast.cli.documentation import show_docs

    raise typer.Exit(show_docs(topic))


for feature in FEATURES.values():
    for command_name, part in feature.commands.items():
        command = feature.part(part)
        group = next((one.typer_instance for one in app.registered_groups if one.name == command_name), None)
        if isinstance(command, typer.Typer) and group is not None:
            group.registered_commands += command.registered_commands  # of several features
        elif isinstance(command, typer.Typer):
            app.add_typer(command, name=command_name)
        else:
            app.command(command_name, short_help=command.__doc__.partition("\n")[0])(command)
