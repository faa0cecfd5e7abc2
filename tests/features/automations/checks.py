"""What must hold for the logs of triggers, however often their servers were killed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast import events as e
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerDue,
    TriggerFired,
    TriggerMissed,
    TriggerRunEnded,
    TriggerSkipped,
)
from holdfast.features.automations.state import DELIVERED, INSTANT

Log = Sequence[e.Event]


@dataclass(slots=True)
class TriggerFindings:
    """How much happened, and what is wrong with it."""

    instants: int = 0
    missed: int = 0
    skipped: int = 0
    deliveries: int = 0
    runs: int = 0
    broken: list[str] = field(default_factory=list[str])

    def insist(self, *, that: bool, or_else: str) -> None:
        """Note what is wrong."""
        if not that:
            self.broken.append(or_else)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The instants of a trigger: every so many milliseconds of Unix time, or since it was made."""

    every_ms: int
    is_cron: bool = False

    def between(self, made_ms: int, last_ms: int) -> list[int]:
        """All instants after it was made, up to the last."""
        first = (made_ms // self.every_ms + 1) * self.every_ms if self.is_cron else made_ms + self.every_ms
        return list(range(first, last_ms + 1, self.every_ms))


def check_instants(findings: TriggerFindings, name: str, log: Log, rhythm: Rhythm) -> None:
    """Each instant up to the last that was decided has one record: due, skipped or missed."""
    made = next(event for event in log if isinstance(event, TriggerCreated))
    told: list[int] = []
    asked: set[str] = set()
    for event in log:
        if isinstance(event, TriggerDue) and not event.missed:
            told.append(event.due_at_ms)
            asked.add(event.key)
        elif isinstance(event, TriggerSkipped) and event.key not in asked:
            told.append(event.due_at_ms)
            findings.skipped += 1
        elif isinstance(event, TriggerMissed):
            stretch = rhythm.between(event.first_ms - rhythm.every_ms, event.last_ms)
            findings.insist(that=len(stretch) == event.count, or_else=f"{name}: a wrong count: {event}")
            told += stretch
            findings.missed += event.count
    expected = rhythm.between(made.at_ms, max(told, default=0))
    findings.instants += len(expected)
    twice = [at_ms for at_ms, count in Counter(told).items() if count > 1]
    findings.insist(that=not twice, or_else=f"{name}: decided twice: {twice[:5]}")
    lost = sorted(set(expected) - set(told))
    findings.insist(that=not lost, or_else=f"{name}: never decided: {lost[:5]}")
    odd = sorted(set(told) - set(expected))
    findings.insist(that=not odd, or_else=f"{name}: no such instant: {odd[:5]}")


def check_runs(findings: TriggerFindings, name: str, log: Log, talks: Mapping[str, Log]) -> None:
    """What was due has one message and one run in its session, was fired once and ended once."""
    dues = {event.key: event for event in log if isinstance(event, TriggerDue)}
    fired = Counter(event.key for event in log if isinstance(event, TriggerFired))
    ended = Counter(event.key for event in log if isinstance(event, TriggerRunEnded))
    findings.insist(
        that=len(dues) == sum(isinstance(event, TriggerDue) for event in log), or_else=f"{name}: due twice"
    )
    for key, due in dues.items():
        talk = talks.get(due.session_id, ())
        runs = [one for one in talk if isinstance(one, e.RunQueued) and one.run_id == due.run_id]
        said = [one for one in talk if isinstance(one, e.MessageAccepted)]
        messages = [one for one in said if one.message_id == due.message_id]
        counts = len(runs), len(messages), fired[key], ended[key]
        findings.insist(that=counts == (1, 1, 1, 1), or_else=f"{name} {key}: run, message, … {counts}")
    findings.runs += len(dues)


def check_deliveries(findings: TriggerFindings, log: Log, accepted: Sequence[str]) -> None:
    """Each delivery that was accepted has one run, however often it was sent."""
    dues = Counter(event.key for event in log if isinstance(event, TriggerDue))
    for delivery_id in accepted:
        count = dues[DELIVERED + delivery_id]
        findings.insist(that=count == 1, or_else=f"delivery {delivery_id} has {count} runs")
    findings.deliveries += len(accepted)
    others = [key for key in dues if key.startswith(INSTANT)]
    findings.insist(that=not others, or_else=f"a hook has instants: {others[:5]}")


def check_nobody_else(findings: TriggerFindings, logs: Mapping[str, Log], talks: Mapping[str, Log]) -> None:
    """No run in the triggers' sessions but those that were due."""
    due = {event.run_id for log in logs.values() for event in log if isinstance(event, TriggerDue)}
    queued = [one.run_id for talk in talks.values() for one in talk if isinstance(one, e.RunQueued)]
    findings.insist(that=set(queued) <= due, or_else=f"runs that nobody asked for: {set(queued) - due}")


def check_times(findings: TriggerFindings, logs: Mapping[str, Log]) -> None:
    """The time of a log never goes back."""
    for name, log in logs.items():
        times = [event.at_ms for event in log]
        findings.insist(that=times == sorted(times), or_else=f"{name}: its time goes back")
