"""The HTTP surface of usage reports."""

from typing import Literal

from holdfast.api.body import ResponseBody
from holdfast.api.operation import Operation


class UsageFigures(ResponseBody, frozen=True, kw_only=True):
    """Usage. `cost_usd` is null if no price is known, and excludes unpriced calls."""

    runs: int
    relayed_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced_calls: int


class UsageListed(UsageFigures, frozen=True, kw_only=True):
    """Usage of one day, target, session or key."""

    key: str
    label: str


class BudgetShown(ResponseBody, frozen=True, kw_only=True):
    """A key's budget for a period and its usage. A null limit means none."""

    key: str
    label: str
    period: Literal["day"]
    limit_usd: float | None
    limit_tokens: int | None
    used_usd: float
    used_tokens: int
    resets_at: float


class UsageSummary(ResponseBody, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """Usage over a range of days (UTC, inclusive). Totals include rows that aren't listed."""

    by: Literal["day", "target", "session", "key"]
    first: str
    last: str
    rows: tuple[UsageListed, ...]
    totals: UsageFigures
    budgets: tuple[BudgetShown, ...]


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/usage",
        "usage.show",
        tag="Server",
        summary=(
            "Report usage of runs and relayed calls: tokens, and cost where the price is known. One row "
            "per day, target, session or key; up to 1000, costliest first. `budgets` lists keys with a "
            "budget and their usage today."
        ),
        scopes=("admin",),
        responses={200: UsageSummary},
        errors={400: "invalid_request"},
        query={
            "by": "day (default), target, session or key.",
            "from": "First day (UTC), such as 2026-01-31. Default: 29 days before `to`.",
            "to": "Last day (UTC). Default: today. Up to 366 days.",
        },
    ),
)
