"""Decides the step after a failed attempt. The retry loop carries it out.

Outages: how long and how often an unreachable address is retried. A connection that is refused or never made
costs nothing. So these attempts are limited by time, not by number, and Holdfast waits for a model that
starts later. A server that is still loading its model counts as unreachable.
"""

from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from holdfast.decisions.failure_rules import Again
from holdfast.decisions.failure_texts import length_text
from holdfast.decisions.failures import TREATMENTS, Fallback, again_of
from holdfast.decisions.gates import Breaker, Gate, breaker_wait_ms, gate_wait_ms
from holdfast.decisions.proxies import proxy_at
from holdfast.targets import RetryLimits, Target, address_of
from holdfast.values import Failure, FailureKind

FALL_BACK_MS = 5_000  # before a target at another address is asked
NEVER_ANSWERED_MS_MAX = 10_000  # for an address that has never answered, which may be mistyped
STEPS_MS = (0, 250, 500, 1_000, 2_000, 4_000, 5_000)
SPREAD = 0.5  # of a step, so that runs that wait for the same model don't return in one burst
_AT_PROXY = frozenset({"proxy.no_way", "proxy.login", "407"})  # rules about the proxy itself


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """The outage of one address: its duration in this call and in all calls, and the number of tries."""

    ms: int = 0
    known_ms: int = 0
    tries: int = 1


def is_unreachable(failure: Failure) -> bool:
    """Return whether the target was unreachable."""
    from holdfast.decisions.failures import again_of  # a server starts without it

    return again_of(failure) == "while_unreachable"


def addresses_of(target: Target) -> tuple[str, ...]:
    """The addresses that must answer to reach the target: its endpoint's and its proxy's."""
    proxy = proxy_at(target.proxy)
    endpoint = address_of(target.base_url)
    return (endpoint,) if proxy is None else (endpoint, f"proxy {proxy.host}:{proxy.port}")


def outage_at(target: Target, failure: Failure) -> str:
    """The address of the outage: the proxy's if the proxy is missing, otherwise the endpoint's."""
    return addresses_of(target)[-1 if failure.rule in _AT_PROXY else 0]


def patience_ms(limits: RetryLimits, *, resumed: bool, has_never_answered: bool) -> int:
    """How long an outage may last before the call gives up on the target.

    A run that continues after a crash gets the longer patience even for an address that has never answered,
    because the crash may have come during its first answer.
    """
    own_ms = int(1000 * limits.unreachable_s)
    if resumed:
        return max(own_ms, int(1000 * limits.unreachable_resumed_s))
    return min(own_ms, NEVER_ANSWERED_MS_MAX) if has_never_answered else own_ms


def pause_ms(tries: int, *, random: float) -> int:
    """The wait before the next try, after this many."""
    step_ms = STEPS_MS[min(tries, len(STEPS_MS)) - 1]
    return int(step_ms * (1 + SPREAD * (random - 0.5)))


LONG_WAIT_MS = 60_000
IDLE_MS_MAX = 600_000
IDLE_UNATTENDED_MS_MAX = 1_800_000
DOUBLINGS_MAX = 20

# How often to retry the same target after one kind of failure; the target's own limit applies too.
AGAIN_TIMES: dict[Again, int | None] = {
    "never": 0,
    "new_turn": 0,
    "compacted": 0,
    "lower_cap": 0,
    "plainly": 0,
    "forgetting": 0,
    "once": 1,
    "twice": 2,
    "backoff": None,
    "at_once_first": None,
    "while_unreachable": None,
    "server_time": None,
}
# Failures of one key, which another key of the same target may not have.
OF_ONE_KEY = frozenset[FailureKind]({"auth", "entitlement", "quota_exhausted", "rate_limited"})
NEEDS_A_PERSON = frozenset[FailureKind]({"auth", "entitlement", "quota_exhausted", "model_missing"})
# After these, a target isn't asked again in this call.
SPENT = frozenset[Again]({"never", "new_turn", "compacted", "lower_cap", "plainly", "forgetting"})


class RetryAfter(msgspec.Struct, frozen=True):
    """Ask the same target again, after a wait."""

    wait_s: float
    why: str


class Reconnect(msgspec.Struct, frozen=True):
    """The target is unreachable: retry it after a wait, for `left_s` in total, then try `to`, if any."""

    wait_s: float
    left_s: float
    why: str
    to: str = ""


class FallBack(msgspec.Struct, frozen=True):
    """Ask another target; immediately, unless it couldn't be reached either."""

    to: str
    why: str
    wait_s: float = 0.0


class Gated(msgspec.Struct, frozen=True):
    """Wait at the gate, visibly; then ask the same target again."""

    wait_ms: int
    why: str


class Compact(msgspec.Struct, frozen=True):
    """Shorten the conversation, then ask the same target again."""

    why: str


class LowerCap(msgspec.Struct, frozen=True):
    """Ask the same target again with a lower output limit; None leaves the number to the caller."""

    output_tokens_max: int | None
    why: str


class DropReasoningOptions(msgspec.Struct, frozen=True):
    """Ask the same target without reasoning options, now and in later requests."""

    why: str


class DropPastReasoning(msgspec.Struct, frozen=True):
    """Ask the same target again without its earlier reasoning in this conversation."""

    why: str


class GiveUp(msgspec.Struct, frozen=True):
    """The call has failed."""

    why: str


Decision: TypeAlias = (
    RetryAfter
    | Reconnect
    | FallBack
    | Gated
    | Compact
    | LowerCap
    | DropReasoningOptions
    | DropPastReasoning
    | GiveUp
)


class Tried(msgspec.Struct, frozen=True):
    """A failed attempt of this call."""

    target: str
    failure: Failure


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision depends on.

    `current` is the target of the failed attempt, and `tried` has the earlier failures of this call.
    `targets` are in order of preference; the first one's limits apply to the call, each one's own to itself.
    `breakers` and `gates` are by target name and `outages` by address; all of them include this failure.
    `now_ms` is from a clock that is never adjusted. `last_progress_ms` is the start of the call until there
    is progress. `gated_ms` is the time spent at gates, which doesn't count as silence. `resumed` means that
    the run continues after a crash or restart, and `never_answered` names targets that have never answered.
    `wait_ms` and `output_room_tokens` come from the failure, `random` is from [0, 1).
    """

    targets: tuple[Target, ...]
    current: str
    tried: tuple[Tried, ...] = ()
    now_ms: int
    last_progress_ms: int
    random: float
    gated_ms: int = 0
    wait_ms: int | None = None
    output_room_tokens: int | None = None
    unattended: bool = False
    compacted: bool = False
    cap_lowered: bool = False
    reasoning_options_dropped: bool = False
    past_reasoning_dropped: bool = False
    breakers: dict[str, Breaker] = {}
    gates: dict[str, Gate] = {}
    outages: dict[str, Outage] = {}
    resumed: bool = False
    never_answered: frozenset[str] = frozenset()


def decide(failure: Failure, history: History) -> Decision:
    """Decide the step after a failure; eventually GiveUp, as all other decisions cost attempts or time."""
    history = msgspec.structs.replace(history, tried=(*history.tried, Tried(history.current, failure)))
    target = _current(history)
    again = again_of(failure)
    fallback = TREATMENTS[failure.kind].fallback
    why = f"{target.name} {TREATMENTS[failure.kind].was}"
    if again == "never" and fallback == "never":
        return GiveUp(why)
    spent = _spent(history)
    if spent:
        return GiveUp(f"{why}; {spent}")
    if again == "while_unreachable":
        return _nobody_there(history, failure, why=why)
    changed = _changed_request(history, again, why=why)
    if changed:
        return changed
    wait_ms = _wait_ms(history, again)
    if _wants_fallback(history, fallback, wait_ms=wait_ms):
        other = _next_target(history, fallback, away_from=outage_at(target, failure))
        if other:
            return FallBack(other.name, why)
    return GiveUp(why) if wait_ms is None else _wait(history, wait_ms, why=why)


def failure_to_report(last: Failure, tried: Sequence[Tried]) -> Failure:
    """The failure that explains why a call has no answer: one that only a person can fix, else the last.

    An unreachable fallback says nothing about the key that the first target rejected.
    """
    if last.kind in NEEDS_A_PERSON:
        return last
    return next((one.failure for one in tried if one.failure.kind in NEEDS_A_PERSON), last)


def hedge_target(history: History) -> Target | None:
    """The target to ask in parallel with a slow current one; None if that isn't wanted or possible."""
    limits = history.targets[0].retry
    if not limits.hedge or len(_counted(history)) + 2 > limits.attempts_max:
        return None
    return _next_target(history, "yes")


def _current(history: History) -> Target:
    return next(target for target in history.targets if target.name == history.current)


def _counted(history: History) -> list[Tried]:
    """Return the attempts that count, without those to unreachable targets."""
    return [tried for tried in history.tried if not is_unreachable(tried.failure)]


def _failures(history: History, name: str) -> list[Failure]:
    return [tried.failure for tried in _counted(history) if tried.target == name]


def _idle_ms(history: History) -> int:
    return history.now_ms - history.last_progress_ms - history.gated_ms


def idle_ms_max(*, unattended: bool) -> int:
    """How long a call can go without progress."""
    return IDLE_UNATTENDED_MS_MAX if unattended else IDLE_MS_MAX


def _idle_ms_max(history: History) -> int:
    return idle_ms_max(unattended=history.unattended)


def _spent(history: History) -> str:
    """Why the call may not try again at all; empty if it may."""
    attempts_max = history.targets[0].retry.attempts_max
    if len(_counted(history)) >= attempts_max:
        many = f"all {attempts_max} attempts of the call are used up"
        return many if attempts_max > 1 else "the call has one attempt"
    if _idle_ms(history) > _idle_ms_max(history):
        return f"no progress for {_idle_ms_max(history) // 60_000} min"
    return ""


def _has_attempts(history: History, target: Target) -> bool:
    return len(_failures(history, target.name)) < target.retry.attempts_per_target_max


def _nobody_there(history: History, failure: Failure, *, why: str) -> Reconnect | FallBack | Gated | GiveUp:
    """Retry until the patience runs out, or until another address is worth a try."""
    target = _current(history)
    at = outage_at(target, failure)
    outage = history.outages.get(at, Outage())
    left_ms = _outage_ms_max(history, target) - outage.ms
    pause = pause_ms(outage.tries, random=history.random)
    other = _next_target(history, "elsewhere", away_from=at)
    if other is not None and (left_ms <= 0 or outage.known_ms >= FALL_BACK_MS):
        return FallBack(other.name, why, pause / 1000 if _outage(history, other) else 0.0)
    if left_ms <= 0:
        return GiveUp(f"{why} for {length_text(outage.ms / 1000)}" if outage.ms else why)
    if other is not None:
        left_ms = min(left_ms, FALL_BACK_MS - outage.known_ms)
    gate_ms = gate_wait_ms(history.gates.get(target.name, Gate()), history.now_ms)
    after = _wait(history, max(min(pause, left_ms), gate_ms), why=why)
    if not isinstance(after, RetryAfter):
        return after
    return Reconnect(after.wait_s, left_ms / 1000, why, other.name if other else "")


def _outage(history: History, target: Target) -> Outage | None:
    """Return this call's knowledge about an outage of a target."""
    found = [history.outages[at] for at in addresses_of(target) if at in history.outages]
    return max(found, key=lambda outage: outage.ms, default=None)


def _outage_ms_max(history: History, target: Target) -> int:
    has_never_answered = target.name in history.never_answered
    return patience_ms(target.retry, resumed=history.resumed, has_never_answered=has_never_answered)


def _changed_request(
    history: History, again: Again, *, why: str
) -> Compact | LowerCap | DropReasoningOptions | DropPastReasoning | None:
    """The same target with a changed request, if that can help and hasn't been tried."""
    if not _has_attempts(history, _current(history)):
        return None
    if again == "compacted" and not history.compacted:
        return Compact(why)
    if again == "lower_cap" and not history.cap_lowered:
        return LowerCap(history.output_room_tokens, why)
    if again == "forgetting" and not history.past_reasoning_dropped:
        return DropPastReasoning(why)
    return DropReasoningOptions(why) if again == "plainly" and not history.reasoning_options_dropped else None


def _wait_ms(history: History, again: Again) -> int | None:
    """The wait before the same target is asked again; None if it isn't."""
    target = _current(history)
    failures = _failures(history, target.name)
    same_kind = [failure for failure in failures if failure.kind == failures[-1].kind]
    times = AGAIN_TIMES[again]
    if not _has_attempts(history, target) or (times is not None and len(same_kind) > times):
        return None
    gate_ms = gate_wait_ms(history.gates.get(target.name, Gate()), history.now_ms)
    breaker_ms = breaker_wait_ms(history.breakers.get(target.name, Breaker()), history.now_ms)
    own_ms = history.wait_ms
    if own_ms is None:
        at_once = again == "at_once_first" and len(same_kind) == 1
        own_ms = 0 if at_once else backoff_ms(len(failures), target.retry, random=history.random)
    return max(own_ms, gate_ms, breaker_ms)


def backoff_ms(failures: int, limits: RetryLimits, *, random: float) -> int:
    """Full jitter: anything from zero to a bound that doubles with each failure, up to its maximum."""
    doubled_s = limits.backoff_base_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX)
    return int(1000 * random * min(limits.backoff_max_s, doubled_s))


def _wants_fallback(history: History, fallback: Fallback, *, wait_ms: int | None) -> bool:
    """Whether to try another target now."""
    if fallback == "never":
        return False
    if wait_ms is None or wait_ms > LONG_WAIT_MS:
        return True
    return fallback == "from_second" and len(_failures(history, history.current)) > 1


def _next_target(history: History, fallback: Fallback, *, away_from: str = "") -> Target | None:
    """The next target, in order and wrapping around, that may be asked and can help.

    The "elsewhere" fallback skips targets behind the address `away_from`.
    """
    current = _current(history)
    kinds = [tried.failure.kind for tried in history.tried]
    if fallback == "once" and kinds.count(kinds[-1]) > 1:
        return None
    place = history.targets.index(current)
    ordered = history.targets[place + 1 :] + history.targets[:place]
    if fallback == "elsewhere":
        ordered = tuple(target for target in ordered if away_from not in addresses_of(target))
    return next((target for target in ordered if _may_take_over(history, target, fallback=fallback)), None)


def _may_take_over(history: History, target: Target, *, fallback: Fallback) -> bool:
    current = _current(history)
    failures = [tried.failure for tried in history.tried if tried.target == target.name]
    outage = _outage(history, target)
    return (
        (outage is None or outage.ms < _outage_ms_max(history, target))
        and _has_attempts(history, target)
        and not any(again_of(failure) in SPENT for failure in failures)
        and not gate_wait_ms(history.gates.get(target.name, Gate()), history.now_ms)
        and not breaker_wait_ms(history.breakers.get(target.name, Breaker()), history.now_ms)
        and (fallback != "larger_window" or target.context_window > current.context_window)
        and (fallback != "other_host" or _host(target) != _host(current))
    )


def _host(target: Target) -> str | None:
    return urlsplit(target.base_url).hostname


def _wait(history: History, wait_ms: int, *, why: str) -> RetryAfter | Gated | GiveUp:
    if wait_ms > LONG_WAIT_MS:
        return Gated(wait_ms, why)
    if _idle_ms(history) + wait_ms > _idle_ms_max(history):
        return GiveUp(f"{why}; no progress for {_idle_ms_max(history) // 60_000} min")
    return RetryAfter(wait_ms / 1000, why)
