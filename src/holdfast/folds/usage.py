"""Usage of runs and relayed calls by day, target and API key, which a store keeps besides the log.

Each event adds to a row, in the event's own transaction. A purge removes the session's usage; the totals by
day stay, because budgets depend on them.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from holdfast import events as e
from holdfast.folds.rows import RunRow, recovered_events
from holdfast.values import RELAY

DAY_MS = 86_400_000
WITH_USAGE: frozenset[type[e.Event]] = frozenset(
    {e.RelayCalled, e.RunEnded, e.Usage, e.SessionRenamed, e.OutputRecovered}
)


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one day (counted from 1970, UTC), target and API key."""

    day: int
    target: str = ""
    api_key: str = ""
    runs: int = 0
    target_runs: int = 0  # runs that used this target for the first time
    relayed_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # of the calls whose price is known
    unpriced_calls: int = 0

    def plus(self, other: "UsageRow") -> "UsageRow":
        """Both together."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        counts = asdict(other)
        sums = {name: getattr(self, name) + counts[name] for name in COUNTS}
        return msgspec.structs.replace(self, **sums, cost_usd=sum(costs) if costs else None)


COUNTS = (
    "runs",
    "target_runs",
    "relayed_calls",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "unpriced_calls",
)


def usage_of(
    event: e.Event, *, source: str, before: RunRow | None, after: RunRow | None
) -> Sequence[UsageRow]:
    """Return the usage that an event adds, given its run's row before and after.

    A run counts with its first usage, in the same row: the start of each run then adds none. One that used
    nothing counts when it ends, unless it was stopped.

    The record of a relayed call has the whole usage, so nothing else in its session counts.
    """
    if isinstance(event, e.RelayCalled):
        return [_of_relayed(event)]
    if source == RELAY:
        return ()
    day, key = event.at_ms // DAY_MS, after.api_key if after is not None else ""
    match event:
        case e.RunEnded() if before is not None and before.status == "running" and not before.targets:
            return [UsageRow(day=day, api_key=key, runs=1)]
        case e.Usage() if before is not None:
            is_first = event.target not in before.targets.split("\n")
            return [_of_call(event, key, runs=int(not before.targets), target_runs=int(is_first))]
        case e.Usage():
            return [_of_call(event, key)]
        case e.SessionRenamed() if event.cost_usd:
            return [UsageRow(day=day, cost_usd=event.cost_usd)]
        case e.OutputRecovered():
            used = [one for one in recovered_events(event) if isinstance(one, e.Usage)]
            return [_of_call(one, key) for one in used]
        case _:
            return ()


def _of_call(event: e.Usage, key: str, *, runs: int = 0, target_runs: int = 0) -> UsageRow:
    return UsageRow(
        day=event.at_ms // DAY_MS,
        target=event.target,
        api_key=key,
        runs=runs,
        target_runs=target_runs,
        input_tokens=event.input_tokens,
        cached_tokens=event.cached_tokens,
        output_tokens=event.output_tokens,
        cost_usd=event.cost_usd,
        unpriced_calls=int(event.cost_usd is None),
    )


def _of_relayed(event: e.RelayCalled) -> UsageRow:
    has_tokens = bool(event.input_tokens or event.output_tokens)
    return UsageRow(
        day=event.at_ms // DAY_MS,
        target=event.target,
        api_key=event.key,
        relayed_calls=1,
        input_tokens=event.input_tokens,
        cached_tokens=event.cached_tokens,
        output_tokens=event.output_tokens,
        cost_usd=event.cost_usd,
        unpriced_calls=int(event.cost_usd is None and has_tokens),
    )
