"""The outages that one call meets: how long each lasts, how often it tries, and what is told of them."""

from dataclasses import dataclass

from holdfast.decisions.failures import Classified
from holdfast.decisions.outages import Outage, addresses_of, outage_at
from holdfast.interfaces.clock import Clock
from holdfast.models.status_lines import nobody_there
from holdfast.models.target_states import TargetStates
from holdfast.targets import Target


@dataclass(slots=True)
class _Met:
    """An outage as one call knows it; times are of the monotonic clock."""

    target: str
    brief: str
    since_s: float
    known_since_s: float
    tries: int = 1
    untold: int = 0  # of these, how many are not on the log


class Reconnects:
    """Counts the tries that found nobody, address by address: targets at one address are one."""

    def __init__(self, shared: TargetStates, clock: Clock) -> None:
        self._shared = shared
        self._now_s = clock.monotonic_s
        self._met: dict[str, _Met] = {}
        self.untold: list[str] = []  # the targets of all tries that are not on the log

    def meet(self, target: Target, ended: Classified, *, told: bool) -> None:
        """Nobody was there once more; `told` if the log says so."""
        at, now_s = outage_at(target, ended.failure), self._now_s()
        met = self._met.get(at)
        if met is None:
            known_since_s = now_s - self._shared.away_s(target, ended.failure)
            self._met[at] = met = _Met(target.name, ended.brief, now_s, known_since_s)
        else:
            met.tries += 1
        if not told:
            met.untold += 1
            self.untold.append(target.name)

    def untold_at(self, target: Target) -> int | None:
        """How many tries at the target's addresses are not on the log; None if it is in no outage."""
        found = [self._met[at].untold for at in addresses_of(target) if at in self._met]
        return sum(found) if found else None

    def outages(self) -> dict[str, Outage]:
        """All outages of this call, by address."""
        now_s = self._now_s()
        return {
            at: Outage(
                ms=int(1000 * (now_s - met.since_s)),
                known_ms=int(1000 * (now_s - met.known_since_s)),
                tries=met.tries,
            )
            for at, met in self._met.items()
        }

    def over(self, target: Target) -> list[str]:
        """Somebody was there: a line for each of the target's outages that the log does not tell whole."""
        return self._forgotten([at for at in addresses_of(target) if at in self._met])

    def all_over(self) -> list[str]:
        """From now on time is counted anew, for every address; what is left to be told."""
        return self._forgotten(list(self._met))

    def brief(self, target: Target, ended: Classified) -> str:
        """What happened, for the last of many tries: it is told, and stands for those before it."""
        self.untold.pop()
        met = self._met[outage_at(target, ended.failure)]
        tries, met.untold = met.untold, 0
        return nobody_there(ended.brief, tries=tries, took_s=self._now_s() - met.since_s)

    def _forgotten(self, addresses: list[str]) -> list[str]:
        ended = [self._met.pop(at) for at in addresses]
        return [
            f"{met.target}: {nobody_there(met.brief, tries=met.untold, took_s=self._now_s() - met.since_s)}"
            for met in ended
            if met.untold
        ]
