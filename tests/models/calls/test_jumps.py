"""Setting the wall clock changes no wait; bench/faults_models.py does this for longer."""

from .jumps import SCENARIOS, campaign


async def test_a_wall_clock_that_is_set_all_the_time_makes_no_wait_longer_and_none_shorter() -> None:
    """P3, P6: waiting, streaming, backing off, gated, breaker open, unreachable, and over a restart."""
    assert await campaign(seed=5, cycles=1) == len(SCENARIOS) + 2
