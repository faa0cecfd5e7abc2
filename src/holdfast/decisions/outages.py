"""Outages: an address where nobody answers, how long it is tried again, and how often.

A connection that is refused, or that never comes about, costs nobody anything. So such attempts are counted
in time and not in number, and a model that comes back later than we do is waited for. A server that is still
loading its model counts as away.
"""

import msgspec

from holdfast.decisions.failures import again_of
from holdfast.decisions.proxies import proxy_at
from holdfast.targets import RetryLimits, Target, address_of
from holdfast.values import Failure

FALL_BACK_MS = 5_000  # so long, before a target at another address is asked
NEVER_ANSWERED_MS_MAX = 10_000  # so long at most, where nobody has ever answered: the address may be mistyped
STEPS_MS = (0, 250, 500, 1_000, 2_000, 4_000, 5_000)
SPREAD = 0.5  # of a step: runs that wait for the same model do not come back in one burst
_LOADING = "503.loading"
_AT_PROXY = frozenset({"proxy.no_way", "proxy.login", "407"})  # rules that are about the proxy itself


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody at one address: for how long in this call, for how long in any, how often this call tried."""

    ms: int = 0
    known_ms: int = 0
    tries: int = 1


def is_unreachable(failure: Failure) -> bool:
    """Whether nobody was there to be asked."""
    return again_of(failure) == "while_unreachable"


def absence(target: Target, failure: Failure) -> str:
    """For example: main cannot be reached."""
    return f"{target.name} " + ("is loading its model" if failure.rule == _LOADING else "cannot be reached")


def addresses_of(target: Target) -> tuple[str, ...]:
    """The addresses that must answer for the target to be reached: the endpoint's, and that of a proxy."""
    proxy = proxy_at(target.proxy)
    endpoint = address_of(target.base_url)
    return (endpoint,) if proxy is None else (endpoint, f"proxy {proxy.host}:{proxy.port}")


def outage_at(target: Target, failure: Failure) -> str:
    """Where nobody was: at the proxy if it is the proxy that is missing, else at the endpoint."""
    return addresses_of(target)[-1 if failure.rule in _AT_PROXY else 0]


def patience_ms(limits: RetryLimits, *, resumed: bool, has_never_answered: bool) -> int:
    """How long an outage may last before the call gives up on the target.

    A run that goes on after a crash has the longer patience even where nobody ever answered: the model may
    have been lost in the middle of its first answer.
    """
    own_ms = int(1000 * limits.unreachable_s)
    if resumed:
        return max(own_ms, int(1000 * limits.unreachable_resumed_s))
    return min(own_ms, NEVER_ANSWERED_MS_MAX) if has_never_answered else own_ms


def pause_ms(tries: int, *, random: float) -> int:
    """The wait before the next try, after so many of them in vain."""
    step_ms = STEPS_MS[min(tries, len(STEPS_MS)) - 1]
    return int(step_ms * (1 + SPREAD * (random - 0.5)))
