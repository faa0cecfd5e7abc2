"""The bodies of responses about usage: what runs and relayed calls used, and the budgets of keys."""

from typing import Literal

from holdfast.api.body import ResponseBody


class UsageFigures(ResponseBody, frozen=True, kw_only=True):
    """What was used; `cost_usd` is null if no price is known, and leaves out the unpriced calls."""

    runs: int
    relayed_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced_calls: int


class UsageListed(UsageFigures, frozen=True, kw_only=True):
    """What one day, target, session or key used."""

    key: str
    label: str


class BudgetShown(ResponseBody, frozen=True, kw_only=True):
    """What a key may use in a period, and what it has used; a limit of null is none."""

    key: str
    label: str
    period: Literal["day"]
    limit_usd: float | None
    limit_tokens: int | None
    used_usd: float
    used_tokens: int
    resets_at: float


class UsageSummary(ResponseBody, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """Usage over some days (UTC), both included; the totals are of everything, also beyond the rows."""

    by: Literal["day", "target", "session", "key"]
    first: str
    last: str
    rows: tuple[UsageListed, ...]
    totals: UsageFigures
    budgets: tuple[BudgetShown, ...]
