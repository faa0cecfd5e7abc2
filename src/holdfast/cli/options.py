"""The options and arguments that several commands share."""

from typing import Annotated

import typer

# None is "not given": then the environment, the file and the defaults count.
Config = Annotated[str | None, typer.Option(metavar="FILE", help="Configuration file.")]
DataDir = Annotated[str | None, typer.Option(metavar="DIR", help="Data directory.")]
Workspace = Annotated[str | None, typer.Option(metavar="DIR", help="Directory that agents work in.")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Model for the default target.")]
RunModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Target to use, by name or model.")
]
Session = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="Session to continue, or last for the newest.")
]
PermissionMode = Annotated[
    str,
    typer.Option(metavar="MODE", help="Permission mode: plan, ask, edits, workspace or unattended."),
]
Effort = Annotated[str, typer.Option(metavar="LEVEL", help="Reasoning effort, such as low, medium or high.")]
Temperature = Annotated[
    float | None, typer.Option(min=0, max=2, metavar="N", help="Sampling temperature, from 0 to 2.")
]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Maximum tokens of each model answer.")
]
Agent = Annotated[str, typer.Option(metavar="NAME", help="Named agent to use. `holdfast agents` lists them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum number of entries to show.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run id (run_…), a unique prefix, or last.")]
Conversation = Annotated[str, typer.Argument(metavar="SESSION", help="Session id, a unique prefix, or last.")]
RuleSession = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="Only this session. Default: all.")
]
KeyScope = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="chat (runs and sessions), approve (approvals and rules), admin (keys, deleting sessions) or "
        "relay (model calls from other programs). Repeatable. Default: all scopes.",
    ),
]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, for example laptop.")]


Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Disable authentication. Anyone on this machine can use the server.")
]


def _not_first(name: str) -> str:
    """Refuse a profile; `main` chooses the one that comes first."""
    if name:
        raise typer.BadParameter("put it first: holdfast -p NAME COMMAND")
    return name


Profile = Annotated[
    str,
    typer.Option(
        "--profile", "-p", metavar="NAME", help="Profile to use. Put this option first.", callback=_not_first
    ),
]
STATUSES = (
    *("queued", "running", "paused", "waiting_for_approval", "waiting_for_client", "stopping"),
    *("completed", "failed", "interrupted", "cancelled"),
)
