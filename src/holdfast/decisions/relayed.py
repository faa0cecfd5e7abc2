"""Decides the step after a failed attempt of a relayed call, without changing the request.

A relayed request belongs to another program. It's never shortened, an empty answer is never continued or
retried, and once the client has received content, nothing is replaced.
"""

from http import HTTPStatus

from holdfast.decisions import retry
from holdfast.values import Failure

# A client's error is the client's business, except for those that a second try can mend.
RETRYABLE_STATUSES = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
CLIENT_ERRORS = range(400, 500)


def decide_relayed(
    failure: Failure, history: retry.History, *, has_content: bool, wait_ms_max: int
) -> retry.Decision:
    """Decide the step after a failure. A wait over `wait_ms_max` is left to the client."""
    if has_content:
        return retry.GiveUp("the client has seen a part of the answer")
    if failure.status in CLIENT_ERRORS and failure.status not in RETRYABLE_STATUSES:
        return retry.GiveUp(f"{history.current} rejected the request")
    decision = retry.decide(failure, history)
    match decision:
        case retry.RetryAfter(wait_s=wait_s, why=why) if 1000 * wait_s > wait_ms_max:
            return retry.GiveUp(why)
        case retry.RetryAfter() | retry.Reconnect() | retry.FallBack() | retry.GiveUp():
            return decision
        case _:
            return retry.GiveUp(decision.why)
