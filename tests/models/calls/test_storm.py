"""A short storm in every run of the suite; the long one is bench/storm_calls.py."""

from tables import for_each_row

from .storm import storm


@for_each_row("seed", [1, 2])
async def test_in_a_storm_every_call_ends_once_and_truly(seed: int) -> None:
    """P3, P4, P10: one typed outcome each, no text doubled or lost, no request beyond the budget."""
    found = await storm(120, seed=seed)
    assert found.wrong == []
    assert found.outcomes["raised"] == 0
    assert found.requests >= 120 - found.outcomes["cancelled"]
    kinds = {outcome.partition(":")[0] for outcome in found.outcomes}
    assert kinds == {"answered", "failed", "cancelled"}, "the weather was too good to prove anything"
