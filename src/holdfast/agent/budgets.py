"""Budgets of runs: limits, usage, and the stop when the minutes are used up."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, Self, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.deps import AgentDeps
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.run import Run
from holdfast.interfaces.clock import Clock
from holdfast.racing import race
from holdfast.values import Budget

T = TypeVar("T")
BudgetPart: TypeAlias = Literal["tokens", "cost_usd", "turns", "minutes"]

CAUSE = "budget"  # the cause of calls that are cancelled because of a budget
MS_PER_MINUTE = 60_000
_SETTINGS: dict[BudgetPart, str] = {
    "tokens": "agent.budget.tokens",
    "cost_usd": "agent.budget.cost_usd",
    "turns": "agent.turns_max",
    "minutes": "agent.budget.minutes",
}


class Spent(Struct, frozen=True):
    """The budget that is used by the run and its sub-agents, or reserved for one of them."""

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0
    minutes: float = 0.0


class RunLimits(Struct, frozen=True):
    """The budget of one run: its caller's, within the operator's limits.

    `shared` is the part that the run shares with its sub-agents. The operator's limit of turns isn't shared:
    it keeps each run from looping.
    """

    run: Run
    budget: Budget
    shared: Budget

    @classmethod
    def of(cls, run: Run, deps: AgentDeps) -> Self:
        """The limits of this run."""
        budget = (run.settings.budget or Budget()).within(deps.budget)
        asked = run.settings.budget.turns if run.settings.budget is not None else 0
        shared = replace(budget, turns=asked)
        return cls(run, replace(budget, turns=budget.turns or deps.turns_max), shared)

    def spent(self, now_ms: int = 0) -> Spent:
        """Return the usage of the run and its sub-agents, including reservations of active ones."""
        run, children = self.run, self.run.used_by_children
        reserved = [child.started.settings.budget or Budget() for child in run.open_children]
        return Spent(
            tokens=run.usage.input_tokens
            + run.usage.output_tokens
            + children.input_tokens
            + children.output_tokens
            + sum(one.tokens for one in reserved),
            cost_usd=run.known_cost_usd + children.cost_usd + sum(one.cost_usd for one in reserved),
            turns=run.turns + children.turns + sum(one.turns for one in reserved),
            minutes=run.worked_ms(now_ms) / MS_PER_MINUTE if now_ms else 0.0,
        )

    def used_up(self) -> BudgetPart | None:
        """Return the part of the budget that is used up, if any; `minutes_over` handles the minutes."""
        run, most, spent = self.run, self.budget, self.spent()
        if most.tokens and spent.tokens >= most.tokens:
            return "tokens"
        if most.cost_usd and spent.cost_usd >= most.cost_usd:
            return "cost_usd"
        if most.turns and (spent.turns if self.shared.turns else run.turns) >= most.turns:
            return "turns"
        return None

    async def minutes_over(self, view: SharedFold, clock: Clock) -> None:
        """Return when the minutes are over; time spent waiting for people doesn't count.

        The log says how many minutes an earlier process used. The rest is measured with a clock that is never
        adjusted.
        """
        run = self.run
        left_s = (self.budget.minutes * MS_PER_MINUTE - run.worked_ms(clock.now_ms())) / 1000
        while True:
            await view.until(lambda: not run.open_asks)
            if left_s <= 0:
                return
            began_s = clock.monotonic_s()
            asked = view.when(lambda: bool(run.open_asks))
            passed = asyncio.ensure_future(clock.sleep_s(left_s))
            await race(asked, passed)
            left_s -= clock.monotonic_s() - began_s

    def sentence(self, part: BudgetPart) -> str:
        """Describe the exceeded limit and the fix."""
        most: float = getattr(self.budget, part)
        asked: float = getattr(self.run.settings.budget or Budget(), part)
        where = f"{_SETTINGS[part]} in the configuration"
        if asked == most:
            where = f"budget.{part} with the request"
        return (
            f"The run reached its budget of {_amount(part, most)}. Its work so far is kept: "
            f"send another message to continue, or set a larger {where}."
        )


def _amount(part: BudgetPart, most: float) -> str:
    match part:
        case "tokens":
            return "1 token" if most == 1 else f"{most:,.0f} tokens"
        case "cost_usd":
            return f"{most:g} USD"
        case "turns":
            return "1 model answer" if most == 1 else f"{most:,.0f} model answers"
        case "minutes":
            return "1 minute" if most == 1 else f"{most:g} minutes"


async def run_until(work: Coroutine[Any, Any, T], over: Coroutine[Any, Any, None]) -> T | None:
    """The result of the work, or None if `over` ended first; the work has then ended too."""
    working, ending = asyncio.create_task(work), asyncio.create_task(over)
    stopped: asyncio.CancelledError | None = None
    try:
        await race(working, ending, cause=CAUSE)
    except asyncio.CancelledError as stop:
        stopped = stop
    if not ending.cancelled():
        ending.result()
    result = None if working.cancelled() else working.result()
    if stopped is not None:
        raise stopped
    return result
