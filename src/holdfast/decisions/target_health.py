"""Whether a target works, in one word, from what its calls have shown."""

from typing import Literal, TypeAlias

from holdfast.decisions.gates import Breaker
from holdfast.values import Failure, FailureKind

Health: TypeAlias = Literal["ok", "waiting", "silent", "unreachable", "failing"]

# These failures are about one request: the target may well answer the next.
ABOUT_A_REQUEST: frozenset[FailureKind] = frozenset(
    {
        "cancelled",
        "local_bug",
        "bad_request",
        "payload_too_large",
        "content_refused",
        "overflow_input",
        "overflow_output",
        "truncated",
        "empty",
    }
)


def health_of(*, is_unreachable: bool, breaker: Breaker, gate_ms: int, failing: Failure | None) -> Health:
    """The health, the worst first; `failing` is the newest failure if there was no success since."""
    if is_unreachable:
        return "unreachable"
    if breaker.cooldown_ms:
        return "silent"
    if gate_ms:
        return "waiting"
    return "failing" if failing is not None and failing.kind not in ABOUT_A_REQUEST else "ok"
