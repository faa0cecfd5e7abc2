"""A target's health in one word."""

import pytest

from holdfast.decisions.gates import Breaker
from holdfast.host.target_report import Health, health_of
from holdfast.values import Failure, FailureKind

OPEN = Breaker(silent=3, cooldown_ms=30_000)


@pytest.mark.parametrize(
    ("is_unreachable", "breaker", "gate_ms", "failing", "health"),
    [
        (True, OPEN, 1, "stalled", "unreachable"),
        (False, OPEN, 1, "stalled", "silent"),
        (False, Breaker(silent=2), 1, "rate_limited", "waiting"),
        (False, Breaker(), 0, "auth", "failing"),
        (False, Breaker(), 0, "bad_request", "ok"),
        (False, Breaker(), 0, None, "ok"),
    ],
)
def test_the_worst_of_what_is_known_is_the_health(
    *, is_unreachable: bool, breaker: Breaker, gate_ms: int, failing: FailureKind | None, health: Health
) -> None:
    failure = None if failing is None else Failure(kind=failing, text="")
    found = health_of(is_unreachable=is_unreachable, breaker=breaker, gate_ms=gate_ms, failing=failure)
    assert found == health
