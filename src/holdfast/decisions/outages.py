"""Outages: how long and how often an unreachable address is retried.

A connection that is refused or never made costs nothing. So these attempts are limited by time, not by
number, and Holdfast waits for a model that starts later. A server that is still loading its model counts as
unreachable.
"""

import msgspec

from holdfast.decisions.proxies import proxy_at
from holdfast.targets import RetryLimits, Target, address_of
from holdfast.values import Failure

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
