"""The `holdfast triggers` commands; each imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import AsJson, Config, DataDir, RunModel, Workspace

triggers_app = typer.Typer(
    help="Manage schedules and webhooks. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="Manage schedules and webhooks.",
    no_args_is_help=True,
)
Trigger = Annotated[
    str, typer.Argument(metavar="TRIGGER", help="Trigger id (trg_…), a unique prefix, or name.")
]
Cron = Annotated[
    str | None,
    typer.Option(metavar="EXPRESSION", help="Cron schedule: five fields, or six starting with seconds."),
]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="Time zone for --cron. Default: UTC.")]
Every = Annotated[str | None, typer.Option(metavar="TIME", help="Interval, such as 15m or 1h30m.")]
At = Annotated[
    str | None, typer.Option(metavar="TIME", help="Time to run once, such as 2027-01-31T08:00:00+01:00.")
]
After = Annotated[
    str | None, typer.Option(metavar="SESSION", help="Session to follow: starts after each of its runs.")
]
Webhook = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Webhook signature: github, slack, stripe, standard or bearer."),
]
SecretFile = Annotated[
    typer.FileText | None,
    typer.Option(
        "--secret-file", help="File with a webhook secret that the sender generated; - reads stdin."
    ),
]
Prompt = Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="Prompt for each run.")]
Session = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="ID", help="Session to run in. Default: a new one each time."),
]
Tool = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="NAME", help="Tool that its runs can use. Repeatable."),
]
Approvals = Annotated[
    str | None, typer.Option(metavar="MODE", help="ask, or unattended (deny anything that needs approval).")
]
Network = Annotated[
    bool | None, typer.Option("--network/--no-network", help="Whether tools can use the network.")
]
Missed = Annotated[
    str | None, typer.Option(metavar="RULE", help="How to handle missed times: once, skip or ask.")
]
Overlap = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="If the previous run is still active: queue, skip or replace."),
]
Skill = Annotated[
    list[str] | None,
    typer.Option("--skill", metavar="NAME", help="Skill that the run reads before it begins. Repeatable."),
]
Times = Annotated[
    int | None,
    typer.Option(metavar="N", help="Stop after N runs, not counting `run`. 0 removes the limit."),
]
Script = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Bash command line to run in the sandbox first; the prompt gets its output. '' removes it.",
    ),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option("--budget-usd", metavar="AMOUNT", help="Cost limit of each run, in US dollars."),
]
Deliver = Annotated[
    list[str] | None,
    typer.Option(
        "--deliver",
        metavar="PLACE",
        help="Destination for results: CHANNEL:CHAT, or an https URL. Repeatable.",
    ),
]


def _flags(data_dir: str | None, config: str | None) -> dict[str, object]:
    return {"data_dir": data_dir, "config": config}


def _given(budget_usd: float | None = None, **fields: Any) -> dict[str, Any]:
    budget = {} if budget_usd is None else {"budget": {"cost_usd": budget_usd}}
    return {name: value for name, value in fields.items() if value is not None} | budget


@triggers_app.command("list")
def triggers_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List triggers and their next run times."""
    from holdfast.features.automations.actions import list_triggers

    raise typer.Exit(list_triggers(_flags(data_dir, config), form="json" if as_json else "text"))


@triggers_app.command(
    "add",
    epilog="Example: holdfast triggers add news --cron '0 8 * * 1-5' --zone Europe/Berlin --prompt 'News?'",
)
def triggers_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Display name.")],
    prompt: Prompt = None,
    cron: Cron = None,
    zone: Zone = None,
    every: Every = None,
    at: At = None,
    after: After = None,
    webhook: Webhook = None,
    secret_file: SecretFile = None,
    session: Session = None,
    workspace: Workspace = None,
    model: RunModel = None,
    budget_usd: BudgetUsd = None,
    skill: Skill = None,
    times: Times = None,
    script: Script = None,
    tool: Tool = None,
    approvals: Approvals = None,
    network: Network = None,
    missed: Missed = None,
    overlap: Overlap = None,
    deliver: Deliver = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Create a trigger. Needs --prompt and one of --cron, --every, --at, --after, --webhook."""
    from holdfast.features.automations.actions import add_trigger

    fields = _given(
        name=name, prompt=prompt, cron=cron, zone=zone, every=every, at=at, after=after, webhook=webhook,
        secret=secret_file.read().strip() if secret_file else None, session_id=session, tools=tool,
        approvals=approvals, network=network, missed=missed, overlap=overlap, deliver=deliver,
        model=model, budget_usd=budget_usd, skills=skill, times=times, script=script,
        paused=paused,
    )  # fmt: skip
    flags = {**_flags(data_dir, config), "agent_workspace": workspace}
    raise typer.Exit(add_trigger(flags, fields, form="json" if as_json else "text"))


@triggers_app.command("show")
def triggers_show(
    trigger: Trigger, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Show a trigger."""
    from holdfast.features.automations.actions import show_trigger

    raise typer.Exit(show_trigger(_flags(data_dir, config), trigger, form="json" if as_json else "text"))


@triggers_app.command("edit", epilog="Example: holdfast triggers edit news --cron '30 7 * * 1-5'")
def triggers_edit(
    trigger: Trigger,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="New name.")] = None,
    prompt: Prompt = None,
    cron: Cron = None,
    zone: Zone = None,
    every: Every = None,
    at: At = None,
    session: Session = None,
    workspace: Workspace = None,
    model: RunModel = None,
    budget_usd: BudgetUsd = None,
    skill: Skill = None,
    times: Times = None,
    script: Script = None,
    tool: Tool = None,
    approvals: Approvals = None,
    network: Network = None,
    missed: Missed = None,
    overlap: Overlap = None,
    deliver: Deliver = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Edit a trigger, from its next run on."""
    from holdfast.features.automations.actions import edit_trigger

    fields = _given(
        name=name, prompt=prompt, cron=cron, zone=zone, every=every, at=at, session_id=session, tools=tool,
        workspace=str(Path(workspace).resolve()) if workspace else None,
        approvals=approvals, network=network, missed=missed, overlap=overlap, deliver=deliver,
        model=model, budget_usd=budget_usd, skills=skill, times=times, script=script,
    )  # fmt: skip
    raise typer.Exit(edit_trigger(_flags(data_dir, config), trigger, fields))


@triggers_app.command("pause")
def triggers_pause(trigger: Trigger, data_dir: DataDir = None, config: Config = None) -> None:
    """Pause a trigger."""
    from holdfast.features.automations.actions import change_trigger

    raise typer.Exit(change_trigger(_flags(data_dir, config), trigger, "pause"))


@triggers_app.command("resume")
def triggers_resume(trigger: Trigger, data_dir: DataDir = None, config: Config = None) -> None:
    """Resume a paused trigger, or one held because the clock was ahead."""
    from holdfast.features.automations.actions import change_trigger

    raise typer.Exit(change_trigger(_flags(data_dir, config), trigger, "resume"))


@triggers_app.command("run")
def triggers_run(trigger: Trigger, data_dir: DataDir = None, config: Config = None) -> None:
    """Fire a trigger now, even if it's paused. A running server starts the run."""
    from holdfast.features.automations.actions import change_trigger

    raise typer.Exit(change_trigger(_flags(data_dir, config), trigger, "run"))


@triggers_app.command("missed")
def triggers_missed(
    trigger: Trigger,
    skip: Annotated[bool, typer.Option("--skip", help="Skip all missed runs.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Run a trigger once for all its missed runs, or skip them."""
    from holdfast.features.automations.actions import answer_missed

    answer = "skip" if skip else "run"
    raise typer.Exit(answer_missed(_flags(data_dir, config), trigger, answer=answer))


@triggers_app.command("secret")
def triggers_secret(trigger: Trigger, data_dir: DataDir = None, config: Config = None) -> None:
    """Replace a webhook's secret and print the new one once."""
    from holdfast.features.automations.actions import new_secret

    raise typer.Exit(new_secret(_flags(data_dir, config), trigger))


@triggers_app.command("remove")
def triggers_remove(trigger: Trigger, data_dir: DataDir = None, config: Config = None) -> None:
    """Delete a trigger. Keeps the sessions it started."""
    from holdfast.features.automations.actions import remove_trigger

    raise typer.Exit(remove_trigger(_flags(data_dir, config), trigger))


@triggers_app.command("history")
def triggers_history(
    trigger: Trigger, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Show a trigger's history, newest first."""
    from holdfast.features.automations.actions import show_history

    raise typer.Exit(show_history(_flags(data_dir, config), trigger, form="json" if as_json else "text"))


@triggers_app.command(
    "next", epilog="Example: holdfast triggers next --cron '0 8 * * 1-5' --zone Europe/Berlin"
)
def triggers_next(
    cron: Cron = None,
    zone: Zone = None,
    every: Every = None,
    at: At = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Preview the next five run times of a schedule."""
    from holdfast.features.automations.actions import show_next

    fields = _given(cron=cron, zone=zone, every=every, at=at)
    raise typer.Exit(show_next(_flags(data_dir, config), fields, form="json" if as_json else "text"))
