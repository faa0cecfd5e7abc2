"""The state of a trigger, as a fold of its log.

`apply` changes the given state. It is a struct so that it can be stored and continued from there, because the
log of a trigger that fires every minute grows for years.
"""

from typing import Literal, TypeAlias

import msgspec

from holdfast import events as e
from holdfast.features.automations.events import (
    HookDelivered,
    SkipReason,
    TriggerCreated,
    TriggerDue,
    TriggerEdited,
    TriggerFired,
    TriggerGaveUp,
    TriggerMissed,
    TriggerMissedAnswered,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
    TriggerRunEnded,
    TriggerScriptEnded,
    TriggerScriptStarted,
    TriggerSkipped,
)
from holdfast.features.automations.values import (
    AfterRun,
    AtTime,
    CronTimes,
    EveryTimes,
    ScriptOutcome,
    TriggerSettings,
)
from holdfast.values import OutcomeKind

HISTORY_MAX = 100
HELD_MS_MIN = 60_000  # clocks of several servers differ by less
FireState: TypeAlias = Literal["due", "fired", "ended", "skipped"]
# How keys of fires begin.
INSTANT, ASKED, DELIVERED, MISSED, AFTER = "at/", "run/", "hook/", "missed/", "after/"
_TIMED = (CronTimes, EveryTimes, AtTime)
_SUCCESSES: frozenset[OutcomeKind | None] = frozenset({"completed"})
_NEUTRAL: frozenset[OutcomeKind | None] = frozenset({"cancelled", "interrupted", None})


class TriggerFire(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One occurrence of a trigger and its outcome."""

    key: str
    due_at_ms: int
    state: FireState
    session_id: str = ""
    message_id: str = ""
    run_id: str = ""
    missed: int = 0
    outcome: OutcomeKind | None = None
    why: SkipReason | None = None
    blob: str = ""
    event: str = ""
    script: Literal["", "started"] | ScriptOutcome = ""
    script_why: str = ""
    script_blob: str = ""


class PendingFire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that asks for a fire, and was not decided on yet."""

    key: str
    at_ms: int
    blob: str = ""
    event: str = ""
    missed: int = 0
    seen_seq: int = 0


class MissedInstants(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Instants that were missed."""

    first_ms: int
    last_ms: int
    count: int
    is_more: bool = False


class Trigger(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One trigger after `last_seq`.

    Instants up to `cursor_ms` are decided, whatever the clock says. Intervals are counted from `anchor_ms`.
    """

    last_seq: int = 0
    settings: TriggerSettings | None = None
    created_ms: int = 0
    api_key: str = ""
    is_deleted: bool = False
    is_paused: bool = False
    gave_up_after: int = 0  # failed runs in a row, if that is why it is paused
    cursor_ms: int = 0
    anchor_ms: int = 0
    seen_seq: int = 0
    failures: int = 0  # in a row
    runs: int = 0  # counted against `times`
    fires: dict[str, TriggerFire] = {}  # by key, oldest first
    pending: dict[str, PendingFire] = {}
    missed: list[MissedInstants] = []  # the newest ones
    unanswered: MissedInstants | None = None  # waiting for a person to run or skip them

    def held_until_ms(self, now_ms: int) -> int:
        """The time until which it's held because the clock was ahead; 0 if it isn't held."""
        is_timed = self.settings is not None and isinstance(self.settings.when, _TIMED)
        is_held = is_timed and not self.is_paused and self.cursor_ms - now_ms > HELD_MS_MIN
        return self.cursor_ms if is_held else 0

    @property
    def is_done(self) -> bool:
        """Whether it has started all the runs that its settings allow."""
        return self.settings is not None and 0 < self.settings.times <= self.runs

    @property
    def can_fire(self) -> bool:
        """Whether it can still fire, now or after a person resumes it."""
        if self.settings is None or self.is_deleted:
            return False
        when = self.settings.when
        is_over = self.is_done or (isinstance(when, AtTime) and when.at_ms <= self.cursor_ms)
        return not is_over or bool(self.pending or self.unanswered or self.due_fires)

    @property
    def due_fires(self) -> list[TriggerFire]:
        """Fires that are not in their session's log, as far as this log knows."""
        return [fire for fire in self.fires.values() if fire.state == "due"]

    @property
    def open_fires(self) -> list[TriggerFire]:
        """Fires whose run has no ending."""
        return [fire for fire in self.fires.values() if fire.state == "fired"]


def apply(trigger: Trigger, seq: int, event: e.Event) -> None:
    """Take the next event; one that was applied before changes nothing."""
    if seq <= trigger.last_seq:
        return
    trigger.last_seq = seq
    match event:
        case TriggerCreated() | TriggerEdited():
            _set(trigger, event)
        case e.SessionDeleted() | e.SessionRestored():
            trigger.is_deleted = isinstance(event, e.SessionDeleted)
        case TriggerPaused() | TriggerResumed() | TriggerGaveUp():
            _pause_or_resume(trigger, event)
        case TriggerRunAsked() | HookDelivered():
            _add_pending(trigger, _pending_of(event))
        case TriggerMissed() | TriggerMissedAnswered():
            _miss(trigger, event)
        case TriggerDue() | TriggerSkipped():
            _decide(trigger, event)
        case TriggerFired() | TriggerRunEnded():
            _go_on(trigger, event)
        case TriggerScriptStarted() | TriggerScriptEnded():
            _script(trigger, event)
        case _:
            return


def _set(trigger: Trigger, event: TriggerCreated | TriggerEdited) -> None:
    was_done, before, trigger.settings = trigger.is_done, trigger.settings, event.settings
    from_ms = event.from_ms if isinstance(event, TriggerEdited) else 0
    if was_done and not trigger.is_done:  # times that passed meanwhile aren't missed
        trigger.cursor_ms = max(trigger.cursor_ms, from_ms)
    if before is None or before.when != event.settings.when:
        trigger.cursor_ms = trigger.anchor_ms = from_ms or event.at_ms
        trigger.unanswered = None
        if isinstance(event.settings.when, AfterRun):
            trigger.seen_seq = event.seen_seq
    if isinstance(event, TriggerCreated):
        trigger.created_ms, trigger.api_key, trigger.is_paused = event.at_ms, event.key, event.paused


def _pause_or_resume(trigger: Trigger, event: TriggerPaused | TriggerResumed | TriggerGaveUp) -> None:
    was_paused, trigger.is_paused = trigger.is_paused, not isinstance(event, TriggerResumed)
    trigger.gave_up_after = event.failures if isinstance(event, TriggerGaveUp) else 0
    if isinstance(event, TriggerResumed):
        # Times that passed while it was paused aren't missed.
        trigger.runs = 0 if trigger.is_done else trigger.runs
        trigger.cursor_ms = event.from_ms or max(trigger.cursor_ms, event.at_ms)
        if event.from_ms:
            trigger.anchor_ms = min(trigger.anchor_ms, event.from_ms)
        if was_paused:
            trigger.failures = 0


def _pending_of(event: TriggerRunAsked | HookDelivered) -> PendingFire:
    if isinstance(event, TriggerRunAsked):
        return PendingFire(key=ASKED + event.request_id, at_ms=event.at_ms)
    key = DELIVERED + event.delivery_id
    return PendingFire(key=key, at_ms=event.at_ms, blob=event.blob, event=event.event)


def _add_pending(trigger: Trigger, pending: PendingFire) -> None:
    if pending.key not in trigger.fires:
        trigger.pending.setdefault(pending.key, pending)


def _miss(trigger: Trigger, event: TriggerMissed | TriggerMissedAnswered) -> None:
    if isinstance(event, TriggerMissed):
        trigger.cursor_ms = max(trigger.cursor_ms, event.last_ms)
        missed = MissedInstants(
            first_ms=event.first_ms, last_ms=event.last_ms, count=event.count, is_more=event.is_more
        )
        trigger.missed = [*trigger.missed[-HISTORY_MAX + 1 :], missed]
        if event.then == "ask":
            earlier = trigger.unanswered
            trigger.unanswered = missed if earlier is None else _together(earlier, missed)
    elif (unanswered := trigger.unanswered) is not None:
        trigger.unanswered = None
        if event.run:
            key = f"{MISSED}{unanswered.last_ms}"
            _add_pending(trigger, PendingFire(key=key, at_ms=event.at_ms, missed=unanswered.count))


def _together(one: MissedInstants, other: MissedInstants) -> MissedInstants:
    return MissedInstants(
        first_ms=one.first_ms,
        last_ms=other.last_ms,
        count=one.count + other.count,
        is_more=one.is_more or other.is_more,
    )


def _decide(trigger: Trigger, event: TriggerDue | TriggerSkipped) -> None:
    pending = trigger.pending.pop(event.key, None)
    if event.key.startswith(INSTANT):
        trigger.cursor_ms = max(trigger.cursor_ms, event.due_at_ms)
    trigger.seen_seq = max(trigger.seen_seq, event.seen_seq)
    known = trigger.fires.get(event.key)
    if known is not None:
        if isinstance(event, TriggerSkipped) and known.state == "due":
            known.state, known.why = "skipped", event.why
        return
    fire = TriggerFire(key=event.key, due_at_ms=event.due_at_ms, state="skipped")
    if pending is not None:
        fire.blob, fire.event = pending.blob, pending.event
    if isinstance(event, TriggerDue):
        fire.state, fire.missed = "due", event.missed
        fire.session_id, fire.message_id, fire.run_id = event.session_id, event.message_id, event.run_id
        trigger.runs += not event.key.startswith(ASKED)
    else:
        fire.why = event.why
    trigger.fires[event.key] = fire
    _trim(trigger)


def _trim(trigger: Trigger) -> None:
    """Forget the oldest fires that are over."""
    over = [key for key, fire in trigger.fires.items() if fire.state in {"ended", "skipped"}]
    for key in over[: max(0, len(trigger.fires) - HISTORY_MAX)]:
        del trigger.fires[key]


def _script(trigger: Trigger, event: TriggerScriptStarted | TriggerScriptEnded) -> None:
    fire = trigger.fires.get(event.key)
    if fire is None:
        return
    if isinstance(event, TriggerScriptStarted):
        fire.script = "started"
    else:
        fire.script, fire.script_why, fire.script_blob = event.outcome, event.why, event.blob


def _go_on(trigger: Trigger, event: TriggerFired | TriggerRunEnded) -> None:
    fire = trigger.fires.get(event.key)
    if fire is None:
        return
    if isinstance(event, TriggerFired):
        fire.state = "fired" if fire.state == "due" else fire.state
        return
    fire.state, fire.outcome = "ended", event.outcome
    if event.outcome in _SUCCESSES:
        trigger.failures = 0
    elif event.outcome not in _NEUTRAL:
        trigger.failures += 1
