"""Decides a trigger's next step from its state and the time. Pure."""

from collections.abc import Callable
from datetime import tzinfo
from hashlib import sha256
from typing import TypeAlias

from msgspec import Struct

from holdfast import events as e
from holdfast.features.automations.events import (
    SkipReason,
    TriggerDue,
    TriggerGaveUp,
    TriggerMissed,
    TriggerResumed,
    TriggerSkipped,
)
from holdfast.features.automations.schedules import (
    AtSchedule,
    CronSchedule,
    EverySchedule,
    PassedInstants,
    Schedule,
    passed_instants,
)
from holdfast.features.automations.state import ASKED, INSTANT, MISSED, PendingFire, Trigger, TriggerFire
from holdfast.features.automations.values import (
    AtTime,
    CronTimes,
    EveryTimes,
    TriggerSettings,
    When,
)

QUEUE_MAX = 50  # fires that wait for the ones before
AHEAD_MS_MAX = 86_400_000  # a trigger whose clock was further ahead than this is resumed automatically
CLOCK = "clock"  # the `by` of an automatic resume
Zones: TypeAlias = Callable[[str], tzinfo]


class AppendEvents(Struct, frozen=True):
    """Append these, under this idempotency key if there is one, and look again."""

    events: tuple[e.Event, ...]
    key: str = ""


class Fire(Struct, frozen=True):
    """Put the message and its run into the session's log."""

    fire: TriggerFire


class StartScript(Struct, frozen=True):
    """Record that the script starts, and start it."""

    fire: TriggerFire


class StopRuns(Struct, frozen=True):
    """Stop these runs, which another one replaces; `then` is appended afterwards."""

    fires: tuple[TriggerFire, ...]
    then: AppendEvents


class WaitForInstant(Struct, frozen=True):
    """Wait until then, or until an append; 0 means indefinitely."""

    until_ms: int = 0


Step: TypeAlias = AppendEvents | Fire | StartScript | StopRuns | WaitForInstant


class TriggerMoment(Struct, frozen=True):
    """The trigger whose step is wanted, and the time."""

    trigger_id: str
    now_ms: int


def schedule_of(when: When, *, anchor_ms: int, zones: Zones) -> Schedule | None:
    """Return the schedule of a trigger; None if it has none. Raises BadSchedule."""
    match when:
        case CronTimes():
            return CronSchedule(when.expression, zones(when.zone))
        case EveryTimes():
            return EverySchedule(anchor_ms, round(1000 * when.seconds))
        case AtTime():
            return AtSchedule(when.at_ms)
        case _:
            return None


def next_step(trigger: Trigger, schedule: Schedule | None, moment: TriggerMoment) -> Step:
    """Return the next step. Call again after each step except a wait."""
    settings = trigger.settings
    if settings is None or trigger.is_deleted:
        return WaitForInstant()
    if 0 < settings.failures_max <= trigger.failures and not trigger.is_paused:
        return AppendEvents((TriggerGaveUp(at_ms=moment.now_ms, failures=trigger.failures),))
    due = trigger.due_fires
    if due and not _must_wait(trigger, settings):
        if settings.script and not due[0].script:
            return StartScript(due[0])
        if due[0].script != "started":
            return Fire(due[0])
    if trigger.pending:
        return decided(trigger, next(iter(trigger.pending.values())), moment)
    if trigger.is_paused or trigger.is_done or schedule is None:
        return WaitForInstant()
    return _scheduled(trigger, schedule, moment)


def _must_wait(trigger: Trigger, settings: TriggerSettings) -> bool:
    """Return whether an occurrence is queued behind one in another session. Sessions have their own queue."""
    return settings.overlap == "queue" and not settings.session_id and bool(trigger.open_fires)


def _scheduled(trigger: Trigger, schedule: Schedule, moment: TriggerMoment) -> Step:
    assert trigger.settings is not None, "next_step has looked"
    if trigger.cursor_ms - moment.now_ms > AHEAD_MS_MAX:
        # Idempotency keys keep times that already fired from firing again.
        return AppendEvents((TriggerResumed(at_ms=moment.now_ms, from_ms=moment.now_ms, by=CLOCK),))
    at_ms = schedule.after(trigger.cursor_ms)
    if at_ms is None or at_ms > moment.now_ms:
        return WaitForInstant(at_ms or 0)
    late_ms = moment.now_ms - round(1000 * trigger.settings.grace_s)
    late = passed_instants(schedule, trigger.cursor_ms, before_ms=late_ms)
    if late is not None:
        return _missed(trigger, late, moment)
    return decided(trigger, PendingFire(key=f"{INSTANT}{at_ms}", at_ms=at_ms), moment)


def _missed(trigger: Trigger, late: PassedInstants, moment: TriggerMoment) -> AppendEvents:
    """The record of what was missed, and with it the one run that stands for all of it."""
    assert trigger.settings is not None, "next_step has looked"
    then = trigger.settings.missed
    missed = TriggerMissed(
        at_ms=moment.now_ms,
        first_ms=late.first_ms,
        last_ms=late.last_ms,
        count=late.count,
        is_more=late.is_more,
        then=then,
    )
    if then != "once":
        return AppendEvents((missed,))
    key = f"{INSTANT}{late.last_ms}"
    made_up = PendingFire(key=key, at_ms=late.last_ms, missed=late.count)
    return AppendEvents((missed, _due(trigger, made_up, moment)), key)


def decided(trigger: Trigger, pending: PendingFire, moment: TriggerMoment) -> Step:
    """Decide whether the occurrence runs now, is skipped, or replaces the active run."""
    assert trigger.settings is not None, "a trigger begins with its settings"
    is_open = bool(trigger.open_fires)
    is_over = trigger.is_done and not pending.key.startswith(ASKED)
    if is_over or (trigger.is_paused and not pending.key.startswith((ASKED, MISSED))):
        return _skipped(pending, moment, "paused")
    if len(trigger.due_fires) >= QUEUE_MAX:
        return _skipped(pending, moment, "queue_full")
    if is_open and trigger.settings.overlap == "skip":
        return _skipped(pending, moment, "overlap")
    record = AppendEvents((_due(trigger, pending, moment),), pending.key)
    if is_open and trigger.settings.overlap == "replace":
        return StopRuns(tuple(trigger.open_fires), record)
    return record


def _skipped(pending: PendingFire, moment: TriggerMoment, why: SkipReason) -> AppendEvents:
    skipped = TriggerSkipped(
        at_ms=moment.now_ms, key=pending.key, due_at_ms=pending.at_ms, why=why, seen_seq=pending.seen_seq
    )
    return AppendEvents((skipped,))


def _due(trigger: Trigger, pending: PendingFire, moment: TriggerMoment) -> TriggerDue:
    assert trigger.settings is not None, "next_step has looked"
    digest = sha256(f"{moment.trigger_id}\n{pending.key}".encode()).hexdigest()
    return TriggerDue(
        at_ms=moment.now_ms,
        key=pending.key,
        due_at_ms=pending.at_ms,
        session_id=trigger.settings.session_id or f"ses_{digest[:24]}",
        message_id=f"msg_{digest[24:48]}",
        run_id=f"run_{digest[-32:]}",
        missed=pending.missed,
        seen_seq=pending.seen_seq,
    )
