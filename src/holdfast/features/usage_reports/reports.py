"""Reports usage over a range of days, from the sums that the store keeps: over HTTP, and for commands."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal, TypeAlias, cast, get_args

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.usage_reports.bodies import BudgetShown, UsageFigures, UsageListed, UsageSummary
from holdfast.interfaces.usage import UsageQuery, UsageSource, UsageSum
from holdfast.server.access.auth import OPEN
from holdfast.server.access.budgets import KeyBudget
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import bad_request
from holdfast.server.transport.bodies import json_response

By: TypeAlias = Literal["day", "target", "session", "key"]
DAYS = 30
DAYS_MAX = 366
_EPOCH = date(1970, 1, 1)
_UNNAMED = {"day": "", "target": "other", "session": "", "key": "unknown"}


class UsageRoutes:
    """The usage route."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def show(self, request: Request) -> Response:
        """GET /api/usage."""
        deps, query = self._deps, request.query_params
        by = grouping(query.get("by", "day"))
        days = days_of(query.get("from", ""), query.get("to", ""), now_ms=deps.clock.now_ms())
        keys = deps.keys
        names = [OPEN] if keys.is_open else [*keys.configured, *(key.name for key in keys.added.list())]
        budgets = await deps.budgets.budgets_of(names)
        return json_response(await usage_summary(deps.store, by, days, budgets=budgets))


async def usage_summary(
    source: UsageSource, by: By, days: tuple[date, date], *, budgets: Sequence[KeyBudget]
) -> UsageSummary:
    """Return the usage of these days, both included."""
    first, last = days
    span = _number(first), _number(last)
    rows = await source.usage(UsageQuery(by, *span))
    totals = await source.usage(UsageQuery("all", *span))
    return UsageSummary(
        by=by,
        first=first.isoformat(),
        last=last.isoformat(),
        rows=tuple(_listed(row, by) for row in rows if _is_used(row)),
        totals=_figures(totals[0] if totals else UsageSum("")),
        budgets=tuple(_budget(one) for one in budgets),
    )


def grouping(given: str) -> By:
    """Parse how to group the sums; raises a Problem."""
    if given not in get_args(By):
        raise bad_request(f"'by' must be one of {', '.join(get_args(By))}, not {given[:40]!r}", param="by")
    return cast("By", given)


def days_of(first: str, last: str, *, now_ms: int) -> tuple[date, date]:
    """Parse the first and the last day, which may be empty; raises a Problem."""
    end = _day(last, "to", datetime.fromtimestamp(now_ms / 1000, UTC).date())
    begin = _day(first, "from", end - timedelta(days=DAYS - 1))
    if begin > end:
        raise bad_request("'from' must not be after 'to'", param="from")
    if (end - begin).days >= DAYS_MAX:
        raise bad_request(f"'from' and 'to' can cover up to {DAYS_MAX} days", param="from")
    return begin, end


def _day(given: str, name: str, default: date) -> date:
    if not given:
        return default
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise bad_request(f"'{name}' must be a day such as 2026-01-31", param=name) from None


def _number(day: date) -> int:
    return (day - _EPOCH).days


def _is_used(row: UsageSum) -> bool:
    """Return whether there is anything to show. A run that has called no model yet has no target."""
    return any((row.runs, row.relayed_calls, row.input_tokens, row.output_tokens, row.unpriced_calls))


def _listed(row: UsageSum, by: By) -> UsageListed:
    name = (_EPOCH + timedelta(days=int(row.name))).isoformat() if by == "day" else row.name
    label = row.label or name or _UNNAMED[by]
    return UsageListed(key=name, label=label, **asdict(_figures(row)))


def _figures(row: UsageSum) -> UsageFigures:
    cost = row.cost_usd
    if cost is None and not row.unpriced_calls:
        cost = 0.0
    return UsageFigures(
        runs=row.runs,
        relayed_calls=row.relayed_calls,
        input_tokens=row.input_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.output_tokens,
        cost_usd=cost,
        unpriced_calls=row.unpriced_calls,
    )


def _budget(one: KeyBudget) -> BudgetShown:
    return BudgetShown(
        key=one.key,
        label=one.key,
        period="day",
        limit_usd=one.limits.budget_usd_per_day or None,
        limit_tokens=one.limits.budget_tokens_per_day or None,
        used_usd=one.used.cost_usd or 0.0,
        used_tokens=one.used.input_tokens + one.used.output_tokens,
        resets_at=one.resets_at_ms / 1000,
    )
