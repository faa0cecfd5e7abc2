"""How a budget is shared: equal parts of what is left, never more than that, and no limit stays no limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.budgets import Spent
from holdfast.features.delegation.run import left_of, share_of
from holdfast.values import Budget

NO_LIMIT = Budget()


def test_without_limits_there_is_nothing_to_divide() -> None:
    assert left_of(NO_LIMIT, Spent(tokens=10**9, cost_usd=10.0, turns=99, minutes=5.0)) == NO_LIMIT
    assert share_of(NO_LIMIT, None, sharers=8) == NO_LIMIT
    assert share_of(NO_LIMIT, Budget(tokens=5), sharers=8) == Budget(tokens=5)


@pytest.mark.parametrize(
    "spent", [Spent(tokens=100), Spent(cost_usd=1.0), Spent(turns=10), Spent(minutes=5.0)]
)
def test_one_part_that_is_used_up_is_enough(spent: Spent) -> None:
    assert left_of(Budget(tokens=100, cost_usd=1.0, turns=10, minutes=5.0), spent) is None


def test_the_parent_keeps_a_share_and_minutes_are_not_divided() -> None:
    left = Budget(tokens=900, cost_usd=9.0, turns=18, minutes=4.0)
    assert share_of(left, None, sharers=8) == Budget(tokens=100, cost_usd=1.0, turns=2, minutes=4.0)
    assert share_of(Budget(tokens=3, turns=3), None, sharers=8) == Budget(tokens=1, turns=1)


def test_what_is_asked_for_is_given_within_what_is_left() -> None:
    left = Budget(tokens=900, turns=18)
    wanted = Budget(tokens=5000, turns=6, cost_usd=1.0, minutes=2.0)
    assert share_of(left, wanted, sharers=2) == Budget(tokens=900, turns=6, cost_usd=1.0, minutes=2.0)
    assert share_of(left, Budget(cost_usd=1.0), sharers=2) == Budget(tokens=300, turns=6, cost_usd=1.0)


@given(st.integers(1, 10**6), st.integers(1, 8), st.lists(st.integers(0, 10**6), max_size=8))
def test_shares_never_exceed_what_is_left(tokens: int, sharers: int, wanted: list[int]) -> None:
    """P14: whatever is asked for, in any order, all reservations together stay within the budget."""
    reserved = 0
    for waiting, asked in zip(range(sharers, 0, -1), [*wanted, *[0] * sharers], strict=False):
        left = left_of(Budget(tokens=tokens), Spent(tokens=reserved))
        if left is None:
            break
        share = share_of(left, Budget(tokens=asked) if asked else None, sharers=waiting)
        assert share.tokens >= 1
        reserved += share.tokens
    assert reserved <= tokens
