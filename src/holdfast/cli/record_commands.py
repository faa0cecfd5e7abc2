"""The commands about what is kept: runs, sessions, approvals, keys."""

from typing import Annotated

import typer

from holdfast.cli.option_types import AsJson, Config, DataDir, Limit

STATUSES = (
    *("queued", "running", "paused", "waiting_for_approval", "stopping"),
    *("completed", "failed", "interrupted", "cancelled"),
)
SCOPES = ("chat", "approve", "admin")
CODES = "Exit code: 0 done, 1 not possible (unknown id, no answer), 2 used wrongly."


def _group(about: str) -> typer.Typer:
    return typer.Typer(help=f"{about} {CODES}", short_help=about, no_args_is_help=True)


runs_app = _group("Look at runs, follow them, stop them, try them again.")
sessions_app = _group("Conversations: list, find, read, export, delete.")
approvals_app = _group("What waits for a person.")
keys_app = _group("Keys of the server, by name.")

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="The id of the run (run_…), the beginning of it, or last.")
]
Conversation = Annotated[
    str, typer.Argument(metavar="SESSION", help="The id of the session, the beginning of it, or last.")
]
WholeSession = Annotated[str, typer.Argument(metavar="SESSION", help="The whole id of the session.")]
RuleSession = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="Only in this session; else in all.")
]
KeyScope = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="chat (runs and sessions), approve (approvals and rules) or admin (keys, deleting sessions); "
        "give it once for each. Without it the key may do everything.",
    ),
]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is, for example laptop.")]


def _flags(data_dir: str | None, config: str | None) -> dict[str, object]:
    return {"data_dir": data_dir, "config": config}


def _form(as_json: bool) -> str:
    return "json" if as_json else "text"


@runs_app.command("list", epilog="Example: holdfast runs list --status waiting_for_approval")
def runs_list(
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="Only those of this session.")
    ] = "",
    status: Annotated[
        str,
        typer.Option(
            metavar="STATUS", help=f"Only those that are {', '.join(STATUSES[:-1])} or {STATUSES[-1]}."
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


@runs_app.command("show", short_help="Show how a run stands.")
def runs_show(run: Run, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Show how a run stands, what it used and what it said."""
    from holdfast.cli.runs import show_run

    raise typer.Exit(show_run(_flags(data_dir, config), run, form=_form(as_json)))


@runs_app.command("tail", epilog="Example: holdfast runs tail run_… --json | jq -r .type")
def runs_tail(run: Run, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """Follow a run from its beginning to its end. Leaving does not stop it.

    Exit code: 0 completed, 1 failed or refused, 130 stopped.
    """
    from holdfast.cli.runs import tail_run

    raise typer.Exit(tail_run(_flags(data_dir, config), run, form=_form(as_json)))


@runs_app.command("stop", short_help="Stop a run.")
def runs_stop(run: Run, data_dir: DataDir = None, config: Config = None) -> None:
    """Stop a run, and wait until nothing of it is left."""
    from holdfast.cli.runs import stop_run

    raise typer.Exit(stop_run(_flags(data_dir, config), run))


@runs_app.command("retry")
def runs_retry(
    run: Run,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="In this copy of its session.")
    ] = "",
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Answer a run's input anew and print the answer.

    Exit code: 0 completed, 1 failed or refused, 130 stopped.
    """
    from holdfast.cli.runs import retry_run

    raise typer.Exit(retry_run(_flags(data_dir, config), run, session=session, form=_form(as_json)))


@sessions_app.command("list", epilog="Example: holdfast sessions list --json | jq -r '.[].session_id'")
def sessions_list(
    archived: Annotated[bool, typer.Option("--archived", help="The archived ones.")] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """List conversations, newest first."""
    from holdfast.cli.sessions import list_sessions

    shown = "true" if archived else ""
    flags = _flags(data_dir, config)
    raise typer.Exit(list_sessions(flags, words="", archived=shown, limit=limit, form=_form(as_json)))


@sessions_app.command("search", epilog="Example: holdfast sessions search 'disk full'")
def sessions_search(
    words: Annotated[str, typer.Argument(metavar="WORDS", help="What was said.")],
    limit: Limit = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Find conversations by what was said in them."""
    from holdfast.cli.sessions import list_sessions

    flags = _flags(data_dir, config)
    raise typer.Exit(list_sessions(flags, words=words, archived="", limit=limit, form=_form(as_json)))


@sessions_app.command("show")
def sessions_show(
    session: Conversation,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=500, metavar="N", help="How much of its end.")
    ] = 100,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Read a conversation."""
    from holdfast.cli.sessions import show_session

    raise typer.Exit(show_session(_flags(data_dir, config), session, limit=limit, form=_form(as_json)))


@sessions_app.command("export", epilog="Example: holdfast sessions export ID --format md -o talk.md")
def sessions_export(
    session: Conversation,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORM", help="json (everything) or md (to read).")
    ] = "json",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file; else the standard output.")
    ] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Write a conversation to a file."""
    from holdfast.cli.sessions import export_session

    if form not in {"json", "md"}:
        raise typer.BadParameter("must be json or md", param_hint="--format")
    kind = "md" if form == "md" else "json"
    raise typer.Exit(export_session(_flags(data_dir, config), session, form=kind, output=output))


@sessions_app.command("delete")
def sessions_delete(
    session: WholeSession,
    now: Annotated[bool, typer.Option("--now", help="At once and for good.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Delete a conversation; its runs are stopped."""
    from holdfast.cli.sessions import delete_session

    raise typer.Exit(delete_session(_flags(data_dir, config), session, how="now" if now else "soon"))


@approvals_app.command("list", short_help="List what waits for you.")
def approvals_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the approvals and questions that wait for you."""
    from holdfast.cli.approvals import list_asks

    raise typer.Exit(list_asks(_flags(data_dir, config), form=_form(as_json)))


@approvals_app.command(
    "answer", epilog="Example: holdfast approvals answer apr_… deny --reason 'not on Fridays'"
)
def approvals_answer(
    ask: Annotated[
        str, typer.Argument(metavar="ASK", help="The id of the approval (apr_…) or the question (que_…).")
    ],
    answer: Annotated[
        str,
        typer.Argument(metavar="ANSWER", help="once, session, always or deny; for a question: the answer."),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why not; the model hears it.")] = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Answer one of them, by its id."""
    from holdfast.cli.approvals import answer_ask

    raise typer.Exit(answer_ask(_flags(data_dir, config), ask, answer, reason=reason))


@approvals_app.command("rules", short_help="List what was allowed for longer.")
def approvals_rules(
    session: RuleSession = "", as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """List what was allowed with "always", and with "session" in one session or in all."""
    from holdfast.cli.approvals import list_rules

    raise typer.Exit(list_rules(_flags(data_dir, config), session=session, form=_form(as_json)))


@approvals_app.command(
    "revoke", short_help="Take such a rule back.", epilog="Example: holdfast approvals revoke gra_…"
)
def approvals_revoke(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id of the rule (gra_…).")],
    session: RuleSession = "",
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Take such a rule back: what it allowed is asked about again."""
    from holdfast.cli.approvals import revoke_rule

    raise typer.Exit(revoke_rule(_flags(data_dir, config), rule, session=session))


@keys_app.command("list", short_help="List keys by name.")
def keys_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List keys by name; a secret is never shown again."""
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
    """Make a key and print it, this once."""
    from holdfast.cli.keys import add_key

    if unknown := [one for one in scope or () if one not in SCOPES]:
        text = f"{unknown[0]} is no scope; there are {', '.join(SCOPES)}"
        raise typer.BadParameter(text, param_hint="--scope")
    flags = _flags(data_dir, config)
    raise typer.Exit(add_key(flags, name, scopes=scope or (), form=_form(as_json)))


@keys_app.command("revoke")
def keys_revoke(name: KeyName, data_dir: DataDir = None, config: Config = None) -> None:
    """Let a key open nothing any more, at once."""
    from holdfast.cli.keys import revoke_key

    raise typer.Exit(revoke_key(_flags(data_dir, config), name))
