"""`holdfast keys` and `holdfast usage`: who may use the server, each revocable, and what was used."""

import sys
from collections.abc import Mapping, Sequence

from holdfast.api.usage import BudgetShown, UsageFigures, UsageSummary
from holdfast.cli.attach import OK, Attached, with_reader, with_server
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error

ORIGINS: Mapping[str, str] = {
    "configured": "the configuration (server.api_keys)",
    "made": "the first start (the file api-key in the data directory)",
    "added": "holdfast keys add",
}
_HEADS = {"day": "DAY", "target": "TARGET", "session": "SESSION", "key": "KEY"}


def list_keys(flags: Mapping[str, object], *, form: str) -> int:
    """Print the names of all keys."""

    async def work(reader: Reader) -> int:
        keys = await reader.keys()
        if form == "json":
            print_json(keys)
        else:
            rows = [
                (one.name, when(one.created_at or 0), " ".join(one.scopes), ORIGINS[one.source])
                for one in keys
            ]
            print_columns(("NAME", "ADDED", "SCOPES", "FROM"), rows)
        return OK

    return with_reader(flags, work)


def add_key(flags: Mapping[str, object], name: str, *, scopes: Sequence[str], form: str) -> int:
    """Make a key and print it, this once."""

    async def work(attached: Attached) -> int:
        made = await attached.client.add_key(name, scopes)
        if form == "json":
            print_json({"name": made.name, "key": made.key})
        else:
            echo(made.key)
            if sys.stdout.isatty():
                echo_error("Save this key now. You can't see it again.")
        return OK

    return with_server(flags, work, works="nothing")


def revoke_key(flags: Mapping[str, object], name: str) -> int:
    """The key opens nothing any more."""

    async def work(attached: Attached) -> int:
        await attached.client.revoke_key(name)
        echo("Revoked.")
        return OK

    return with_server(flags, work, works="nothing")


def show_usage(flags: Mapping[str, object], *, by: str, days: tuple[str, str], form: str) -> int:
    """Print the sums, the totals last, and then the budgets."""

    async def work(reader: Reader) -> int:
        found = await reader.usage(by=by, first=days[0], last=days[1])
        if form == "json":
            print_json(found)
        else:
            _print(found)
        return OK

    return with_reader(flags, work)


def _print(found: UsageSummary) -> None:
    head = ("COST", "INPUT", "CACHED", "OUTPUT", "RUNS", "RELAYED", _HEADS[found.by])
    rows = [(*_cells(row), row.label or row.key) for row in found.rows]
    total = (*_cells(found.totals), f"total, {found.first} to {found.last} (UTC)")
    print_columns(head, [*rows, total])
    if unpriced := found.totals.unpriced_calls:
        calls = "1 call" if unpriced == 1 else f"{unpriced} calls"
        echo(f"The cost excludes {calls} to models without a known price.")
    if found.budgets:
        echo()
        print_columns(("BUDGET", "PERIOD", "LEFT", "RESETS"), [_budget(one) for one in found.budgets])


def _cells(figures: UsageFigures) -> Sequence[str]:
    counts = (
        *(figures.input_tokens, figures.cached_tokens, figures.output_tokens),
        *(figures.runs, figures.relayed_calls),
    )
    return (_cost(figures), *(f"{count:,}" for count in counts))


def _cost(figures: UsageFigures) -> str:
    known = figures.cost_usd or 0.0
    if not figures.unpriced_calls:
        return _money(known)
    return f">= {_money(known)}" if known else "unknown"


def _money(usd: float) -> str:
    return f"${usd:.4f}" if 0 < usd < 0.01 else f"${usd:.2f}"  # noqa: PLR2004  # a cent


def _budget(one: BudgetShown) -> Sequence[str]:
    left: list[str] = []
    if one.limit_usd is not None:
        left.append(f"{_money(max(0.0, one.limit_usd - one.used_usd))} of {_money(one.limit_usd)}")
    if one.limit_tokens is not None:
        left.append(f"{max(0, one.limit_tokens - one.used_tokens):,} of {one.limit_tokens:,} tokens")
    return (one.label, one.period, ", ".join(left), when(one.resets_at))
