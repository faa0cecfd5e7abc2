"""A target as people and clients see it; never its key, its headers or its address.

Whether a target works, in one word, from what its calls have shown.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from holdfast.api.server import LearnedShown, PatienceShown, TargetFailed, TargetState, TargetTried
from holdfast.decisions.deadlines import Deadlines, RequestFacts, effective, is_local
from holdfast.decisions.gates import Breaker
from holdfast.decisions.learned import BAND_TOKENS, p95_s
from holdfast.host.probe import WORKS, Probed, redact_for
from holdfast.models.target_states import TargetStates
from holdfast.targets import Target
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


def target_state(target: Target, shared: TargetStates) -> TargetState:
    """The target as it is now."""
    activity, breaker = shared.activity, shared.breaker(target)
    gated_ms = shared.gate_wait_ms(target)
    last, answered_ms = activity.last_failure(target), activity.answered_ms(target)
    return TargetState(
        name=target.name,
        model=target.model,
        wire=target.wire,
        context_window=target.context_window,
        gated_ms=gated_ms,
        silent_ms=shared.breaker_wait_ms(target),
        health=health_of(
            is_unreachable=shared.is_unreachable(target),
            breaker=breaker,
            gate_ms=gated_ms,
            failing=activity.failing(target),
        ),
        gate_why=redact_for(target, shared.gate(target).why) if gated_ms else "",
        active_calls=activity.active(target),
        waiting_calls=shared.waiting(target),
        silent_times=breaker.silent,
        patience=_patience(_deadlines(target, shared, input_tokens=0)),
        learned=tuple(_learned(target, shared)),
        last_answer_at=None if answered_ms is None else answered_ms / 1000,
        last_failure=None if last is None else _failed(target, last.failure, at_ms=last.at_ms),
    )


def tried(target: Target, probed: Probed) -> TargetTried:
    """How a tiny call went."""
    failure = probed.failure
    return TargetTried(
        name=target.name,
        works=failure is None or failure.kind in WORKS,
        ms=round(1000 * probed.took_s),
        first_ms=None if probed.first_s is None else round(1000 * probed.first_s),
        failure=None if failure is None else _failed(target, failure),
    )


def _failed(target: Target, failure: Failure, *, at_ms: int | None = None) -> TargetFailed:
    return TargetFailed(
        kind=failure.kind,
        text=redact_for(target, failure.text),
        at=None if at_ms is None else at_ms / 1000,
    )


def _deadlines(target: Target, shared: TargetStates, *, input_tokens: int) -> Deadlines:
    facts = RequestFacts(
        local=is_local(urlsplit(target.base_url).hostname or ""),
        input_tokens=input_tokens,
        learned_p95_s=shared.learned_p95_s(target, input_tokens),
        usual_s=shared.usual_s(target, input_tokens),
    )
    return effective(target.patience, facts)


def _patience(deadlines: Deadlines) -> PatienceShown:
    first = deadlines.first_event
    return PatienceShown(
        connect_s=deadlines.connect.patience_s,
        first_event_s=first.patience_s,
        first_event_why=first.why,
        gap_s=deadlines.gap.patience_s,
    )


def _learned(target: Target, shared: TargetStates) -> Iterator[LearnedShown]:
    """One line for each size of request that the target has answered."""
    learned = shared.learned(target)
    for least, ring in zip((0, *BAND_TOKENS), learned.bands, strict=True):
        if ring:
            yield LearnedShown(
                input_tokens_min=least,
                calls=len(ring),
                first_event_p95_s=p95_s(learned, least) or 0.0,
                waits_s=_deadlines(target, shared, input_tokens=least).first_event.patience_s,
            )
