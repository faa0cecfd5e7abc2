"""How a run shares its budget with its sub-agents: what is left of it, and how much each one gets."""

from holdfast.agent.budgets import Spent
from holdfast.values import Budget

CENT_PARTS = 1e-6  # below this, money that is left is a rounding error


def left_of(budget: Budget, spent: Spent) -> Budget | None:
    """Return the remaining budget, where 0 still means no limit; None if a part of it is used up."""
    left = Budget(
        tokens=max(budget.tokens - spent.tokens, 0),
        cost_usd=max(budget.cost_usd - spent.cost_usd, 0.0),
        turns=max(budget.turns - spent.turns, 0),
        minutes=max(budget.minutes - spent.minutes, 0.0),
    )
    is_over = (
        (budget.tokens and not left.tokens)
        or (budget.cost_usd and left.cost_usd < CENT_PARTS)
        or (budget.turns and not left.turns)
        or (budget.minutes and not left.minutes)
    )
    return None if is_over else left


def share_of(left: Budget, wanted: Budget | None, *, sharers: int) -> Budget:
    """Return the budget of one of `sharers` new sub-agents: its request, within the remaining budget.

    Without a request, it gets an equal share, and the parent also keeps one share. Minutes pass for all of
    them at the same time, so they aren't divided.
    """
    parts = sharers + 1
    even = Budget(
        tokens=max(left.tokens // parts, 1) if left.tokens else 0,
        cost_usd=left.cost_usd / parts,
        turns=max(left.turns // parts, 1) if left.turns else 0,
        minutes=left.minutes,
    )
    if wanted is None:
        return even
    asked = Budget(
        tokens=wanted.tokens or even.tokens,
        cost_usd=wanted.cost_usd or even.cost_usd,
        turns=wanted.turns or even.turns,
        minutes=wanted.minutes or even.minutes,
    )
    return asked.within(left)
