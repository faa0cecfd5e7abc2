"""Prints usage reports."""

from collections.abc import Mapping, Sequence

from holdfast.cli.attach import OK, with_reader
from holdfast.cli.offline_reader import OfflineReader
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo
from holdfast.client import Client, Refused
from holdfast.features.usage_reports.bodies import BudgetShown, UsageFigures, UsageSummary
from holdfast.features.usage_reports.reports import days_of, grouping, usage_summary
from holdfast.interfaces.system_clock import SystemClock
from holdfast.server.access.auth import OPEN
from holdfast.server.access.budgets import KeyBudgets
from holdfast.server.problems import Problem

_HEADS = {"day": "DAY", "target": "TARGET", "session": "SESSION", "key": "KEY"}


def show_usage(flags: Mapping[str, object], *, by: str, days: tuple[str, str], form: str) -> int:
    """Print the sums, the totals last, and then the budgets. Without a server, reads the store."""

    async def work(reader: Reader) -> int:
        found = await read_usage(reader, by=by, days=days)
        if form == "json":
            print_json(found)
        else:
            _print(found)
        return OK

    return with_reader(flags, work)


async def read_usage(reader: Reader, *, by: str, days: tuple[str, str]) -> UsageSummary:
    """Read the usage of these days from a server or the store."""
    if isinstance(reader, Client):
        query = {"by": by, "from": days[0], "to": days[1]}
        return await reader.get("/api/usage", UsageSummary, query=query)
    assert isinstance(reader, OfflineReader), "there is no other reader"
    clock = SystemClock()
    try:
        group, span = grouping(by), days_of(*days, now_ms=clock.now_ms())
    except Problem as problem:
        raise Refused(problem.status, problem.body.error) from None
    budgets = KeyBudgets({key.name: key for key in reader.settings.keys}, reader.store, clock)
    names = [key.name for key in await reader.keys()] or [OPEN]
    return await usage_summary(reader.store, group, span, budgets=await budgets.budgets_of(names))


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
