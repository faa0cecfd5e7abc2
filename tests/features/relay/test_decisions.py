"""What follows from a failure of a relayed call."""

import pytest

from holdfast.decisions import retry
from holdfast.features.relay.requests import decide_relayed
from holdfast.targets import Target
from holdfast.values import Failure, FailureKind

TARGETS = tuple(
    Target(name=name, wire="chat", base_url=f"http://{name}.test/v1", model="m") for name in ("a", "b")
)
MINUTE_MS = 60_000


def decided(
    kind: FailureKind, *, status: int = 0, rule: str = "", content: bool = False, wait_ms: int | None = None
) -> retry.Decision:
    history = retry.History(
        targets=TARGETS, current="a", now_ms=0, last_progress_ms=0, random=0.5, wait_ms=wait_ms
    )
    failure = Failure(kind=kind, text="", status=status, rule=rule)
    return decide_relayed(failure, history, has_content=content, wait_ms_max=MINUTE_MS // 2)


def test_after_content_nothing_is_replaced() -> None:
    assert isinstance(decided("dropped"), retry.RetryAfter)
    assert isinstance(decided("dropped", content=True), retry.GiveUp)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_an_error_of_the_client_is_passed_on_even_with_a_fallback(status: int) -> None:
    assert isinstance(decided("bad_request", status=status), retry.GiveUp)
    assert isinstance(decided("bad_request"), retry.FallBack)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 529])
def test_what_a_second_try_can_mend_is_tried_again(status: int) -> None:
    assert isinstance(decided("server_error", status=status), retry.RetryAfter)


def test_a_long_wait_is_left_to_the_client() -> None:
    assert isinstance(decided("rate_limited", status=429, wait_ms=20_000), retry.RetryAfter)
    assert isinstance(decided("rate_limited", status=429, wait_ms=40_000), retry.GiveUp)


def test_a_request_is_never_changed() -> None:
    assert isinstance(decided("overflow_output"), retry.GiveUp)


def test_a_target_that_cannot_be_reached_is_tried_for_a_while() -> None:
    assert isinstance(decided("connect_failed", rule="refused"), retry.Reconnect)
