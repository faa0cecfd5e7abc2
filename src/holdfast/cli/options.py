"""The options and arguments that several commands share."""

from typing import Annotated

import typer

# None is "not given": then the environment, the file and the defaults count.
Config = Annotated[str | None, typer.Option(metavar="FILE", help="The configuration file.")]
DataDir = Annotated[str | None, typer.Option(metavar="DIR", help="The data directory.")]
Workspace = Annotated[str | None, typer.Option(metavar="DIR", help="The directory in which agents work.")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="The model of the default target.")]
RunModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The target to use, by name or model.")
]
Session = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="The session to continue; last is the newest.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The most entries to show.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id (run_…), the start of it, or last.")]
Conversation = Annotated[
    str, typer.Argument(metavar="SESSION", help="The session's id, the start of it, or last.")
]
RuleSession = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="Only this session; otherwise all.")
]
KeyScope = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="chat (runs and sessions), approve (approvals and rules), admin (keys, deleting sessions) or "
        "relay (model calls of other programs). "
        "Repeat the option for several. Without it, the key can do everything.",
    ),
]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="A name for the key, for example laptop.")]


Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Need no key: everyone on this machine may use the server.")
]
