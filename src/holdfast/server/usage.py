"""GET /api/usage: what runs and relayed calls used."""

from datetime import UTC, date, datetime, timedelta
from typing import Literal, cast, get_args

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.usage import UsageFigures, UsageListed, UsageSummary
from holdfast.interfaces.journal import UsageQuery, UsageSum
from holdfast.server.access.auth import OPEN
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import bad_request
from holdfast.server.transport.bodies import json_response

By = Literal["day", "target", "session", "key"]
DAYS = 30
DAYS_MAX = 366
_EPOCH = date(1970, 1, 1)


class UsageRoutes:
    """Sums by day, target, session or key; the store keeps them, so no log is read."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /api/usage."""
        by = _by(request)
        first, last = self._days(request)
        span = _number(first), _number(last)
        store = self._deps.store
        rows = await store.usage(UsageQuery(by, *span))
        totals = await store.usage(UsageQuery("all", *span))
        shown = UsageSummary(
            by=by,
            first=first.isoformat(),
            last=last.isoformat(),
            rows=tuple(_listed(row, by) for row in rows),
            totals=_figures(totals[0] if totals else UsageSum("")),
            budgets=tuple(await self._deps.budgets.shown(self._keys())),
        )
        return json_response(shown)

    def _keys(self) -> list[str]:
        keys = self._deps.keys
        return [OPEN] if keys.is_open else [*keys.configured, *(key.name for key in keys.added.list())]

    def _days(self, request: Request) -> tuple[date, date]:
        today = datetime.fromtimestamp(self._deps.clock.now_ms() / 1000, UTC).date()
        last = _day(request, "to", today)
        first = _day(request, "from", last - timedelta(days=DAYS - 1))
        if first > last:
            raise bad_request("'from' must not be after 'to'", param="from")
        if (last - first).days >= DAYS_MAX:
            raise bad_request(f"'from' and 'to' may cover at most {DAYS_MAX} days", param="from")
        return first, last


def _by(request: Request) -> By:
    given = request.query_params.get("by", "day")
    if given not in get_args(By):
        raise bad_request(f"'by' must be one of {', '.join(get_args(By))}, not {given[:40]!r}", param="by")
    return cast("By", given)


def _day(request: Request, name: str, default: date) -> date:
    given = request.query_params.get(name)
    if not given:
        return default
    try:
        day = date.fromisoformat(given)
    except ValueError:
        raise bad_request(f"'{name}' must be a day such as 2026-01-31", param=name) from None
    if not day >= _EPOCH:
        raise bad_request(f"'{name}' must be a day since 1970", param=name)
    return day


def _number(day: date) -> int:
    return (day - _EPOCH).days


def _listed(row: UsageSum, by: By) -> UsageListed:
    name = (_EPOCH + timedelta(days=int(row.name))).isoformat() if by == "day" else row.name
    label = row.label or name or _UNNAMED[by]
    return UsageListed(key=name, label=label, **asdict(_figures(row)))


_UNNAMED = {"day": "", "target": "other", "session": "", "key": "unknown"}


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
