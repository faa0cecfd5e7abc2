"""The outages during one call: how long each lasts, how often the call tried, and what is on the log."""

from msgspec import Struct

from holdfast.decisions.failures import Classified
from holdfast.decisions.retry import Outage, addresses_of, outage_at
from holdfast.interfaces.clock import Clock
from holdfast.models.status_lines import reconnects_line, reconnects_text
from holdfast.models.target_states import TargetStates
from holdfast.targets import Target


class _CallOutage(Struct):
    """An outage as this call sees it; times are monotonic."""

    target: str
    brief: str
    since_s: float
    known_since_s: float
    tries: int = 1
    unrecorded: int = 0  # of these, how many are not on the log


class Reconnects:
    """Counts failed tries to connect, by address; targets at the same address share a count."""

    def __init__(self, shared: TargetStates, clock: Clock) -> None:
        self._shared = shared
        self._now_s = clock.monotonic_s
        self._outages: dict[str, _CallOutage] = {}
        self.unrecorded: list[str] = []  # the targets of all tries that are not on the log

    def count(self, target: Target, ended: Classified, *, recorded: bool) -> None:
        """Count a failed try; `recorded` says whether it is on the log."""
        at, now_s = outage_at(target, ended.failure), self._now_s()
        outage = self._outages.get(at)
        if outage is None:
            known_since_s = now_s - self._shared.outage_s(target, ended.failure)
            self._outages[at] = outage = _CallOutage(target.name, ended.brief, now_s, known_since_s)
        else:
            outage.tries += 1
        if not recorded:
            outage.unrecorded += 1
            self.unrecorded.append(target.name)

    def unrecorded_at(self, target: Target) -> int | None:
        """How many tries at the target's addresses aren't on the log; None if there is no outage."""
        if not self._outages:
            return None
        found = [self._outages[at].unrecorded for at in addresses_of(target) if at in self._outages]
        return sum(found) if found else None

    def outages(self) -> dict[str, Outage]:
        """All outages of this call, by address."""
        now_s = self._now_s()
        return {
            at: Outage(
                ms=int(1000 * (now_s - outage.since_s)),
                known_ms=int(1000 * (now_s - outage.known_since_s)),
                tries=outage.tries,
            )
            for at, outage in self._outages.items()
        }

    def end(self, target: Target) -> list[str]:
        """End the target's outages; returns a trace line for each that has unrecorded tries."""
        return self._end([at for at in addresses_of(target) if at in self._outages])

    def end_all(self) -> list[str]:
        """End all outages, so that time starts again from zero; returns trace lines like `end`."""
        return self._end(list(self._outages))

    def brief(self, target: Target, ended: Classified) -> str:
        """What happened, for the last of many tries, which is recorded in place of those before it."""
        self.unrecorded.pop()
        outage = self._outages[outage_at(target, ended.failure)]
        tries, outage.unrecorded = outage.unrecorded, 0
        return reconnects_text(ended.brief, tries=tries, took_s=self._now_s() - outage.since_s)

    def _end(self, addresses: list[str]) -> list[str]:
        ended = [self._outages.pop(at) for at in addresses]
        return [reconnects_line(outage.target, self._text(outage)) for outage in ended if outage.unrecorded]

    def _text(self, outage: _CallOutage) -> str:
        took_s = self._now_s() - outage.since_s
        return reconnects_text(outage.brief, tries=outage.unrecorded, took_s=took_s)
