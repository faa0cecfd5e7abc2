"""Values that events are made of."""

from holdfast.values import Budget, asks_less, strictest


def test_of_two_budgets_the_smaller_counts_and_zero_is_no_limit() -> None:
    one = Budget(tokens=100, cost_usd=0.0, turns=3, minutes=0.0)
    other = Budget(tokens=50, cost_usd=2.5, turns=9, minutes=0.0)
    assert one.within(other) == other.within(one) == Budget(tokens=50, cost_usd=2.5, turns=3, minutes=0.0)


def test_modes_are_ordered_by_what_runs_without_a_person() -> None:
    """P13: the stricter of two modes counts."""
    assert (
        asks_less("workspace", than="ask"),
        asks_less("ask", than="ask"),
        asks_less("plan", than="edits"),
    ) == (
        True,
        False,
        False,
    )
    assert strictest("workspace", "plan", "ask") == "plan"
