"""The command `holdfast usage`; it imports what it needs when it runs."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

GROUPS = ("day", "target", "session", "key")


def usage(
    by: Annotated[str, typer.Option(metavar="GROUP", help="Group by day, target, session or key.")] = "day",
    first: Annotated[
        str, typer.Option("--from", metavar="DAY", help="First day (UTC). Default: 30 days in total.")
    ] = "",
    last: Annotated[str, typer.Option("--to", metavar="DAY", help="Last day (UTC). Default: today.")] = "",
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Show tokens, cost and budgets.

    Example: holdfast usage --by target --from 2026-01-01 --to 2026-01-31
    """
    from holdfast.features.usage_reports.tables import show_usage

    if by not in GROUPS:
        raise typer.BadParameter(f"must be one of {', '.join(GROUPS)}, not {by}", param_hint="--by")
    flags = {"data_dir": data_dir, "config": config}
    form = "json" if as_json else "text"
    raise typer.Exit(show_usage(flags, by=by, days=(first, last), form=form))
