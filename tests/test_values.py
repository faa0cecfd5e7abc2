"""Values that events are made of."""

from holdfast.values import Budget


def test_of_two_budgets_the_smaller_counts_and_zero_is_no_limit() -> None:
    one = Budget(tokens=100, cost_usd=0.0, turns=3, minutes=0.0)
    other = Budget(tokens=50, cost_usd=2.5, turns=9, minutes=0.0)
    assert one.within(other) == other.within(one) == Budget(tokens=50, cost_usd=2.5, turns=3, minutes=0.0)
