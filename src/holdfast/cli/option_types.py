"""Options that several commands have; None is "not given": then environment, file and defaults count."""

from typing import Annotated

import typer

Config = Annotated[str | None, typer.Option(metavar="FILE", help="The configuration file.")]
DataDir = Annotated[str | None, typer.Option(metavar="DIR", help="Where everything is kept.")]
Workspace = Annotated[str | None, typer.Option(metavar="DIR", help="Where agents work.")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="The model of the default target.")]
Session = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="The session to go on with; last is the newest.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, metavar="N", help="How many at most.")]
