"""Events in a trigger's log.

Each occurrence is logged before its run starts: `trigger.due` has the ids of the message and the run, derived
from the trigger and `key`. After a crash, the same ids are used, so the run starts exactly once.
"""

from typing import Literal, TypeAlias, get_args

from holdfast.events.bases import Event, Input, OwnedEvent
from holdfast.features.automations.values import MissedRule, ScriptOutcome, TriggerSettings
from holdfast.values import BlobRef, OutcomeKind

SkipReason: TypeAlias = Literal["overlap", "paused", "duplicate", "queue_full", "session_deleted"]


class TriggerCreated(Input, frozen=True, kw_only=True, tag="trigger.created"):
    """The trigger was created. `key` is the API key that created it and that its runs are charged to.

    `seen_seq` is the end of the log of the session whose runs it waits for.
    """

    settings: TriggerSettings
    paused: bool = False
    key: str = ""
    seen_seq: int = 0


class TriggerEdited(Input, frozen=True, kw_only=True, tag="trigger.edited"):
    """The settings changed, from the next scheduled time on.

    `from_ms` is the time of the edit. The event's own time can be later if the clock was wrong before,
    because times in a log never decrease.
    """

    settings: TriggerSettings
    by: str = ""
    seen_seq: int = 0
    from_ms: int = 0


class TriggerPaused(Input, frozen=True, kw_only=True, tag="trigger.paused"):
    """The trigger was paused. It can still be run manually."""

    by: str = ""


class TriggerResumed(Input, frozen=True, kw_only=True, tag="trigger.resumed"):
    """The trigger was resumed, from its next scheduled time on.

    `from_ms` is the time of the resume, and resets a cursor that moved while the clock was ahead. The event's
    own time can be later, because times in a log never decrease.
    """

    by: str = ""
    from_ms: int = 0


class TriggerRunAsked(Input, frozen=True, kw_only=True, tag="trigger.run_asked"):
    """A person ran the trigger manually."""

    request_id: str
    by: str = ""


class TriggerMissedAnswered(Input, frozen=True, kw_only=True, tag="trigger.missed_answered"):
    """A person decided whether to run once for all missed times."""

    run: bool
    by: str = ""


class HookDelivered(Input, frozen=True, kw_only=True, tag="hook.delivered"):
    """A webhook delivery with a valid signature arrived. `blob` has the body."""

    delivery_id: str  # deduplication key
    blob: BlobRef
    bytes: int
    event: str = ""  # the sender's event name


class TriggerDue(OwnedEvent, frozen=True, kw_only=True, tag="trigger.due"):
    """The next occurrence, with the ids of its message and run. `missed` counts earlier missed times."""

    key: str
    due_at_ms: int
    session_id: str
    message_id: str
    run_id: str
    missed: int = 0
    seen_seq: int = 0


class TriggerScriptStarted(OwnedEvent, frozen=True, kw_only=True, tag="trigger.script_started"):
    """The script of this occurrence is about to start. It starts at most once."""

    key: str


class TriggerScriptEnded(OwnedEvent, frozen=True, kw_only=True, tag="trigger.script_ended"):
    """The script ended. `why` says what went wrong; `blob` has its output, shortened."""

    key: str
    outcome: ScriptOutcome
    why: str = ""
    blob: BlobRef = ""
    ms: int = 0


class TriggerFired(OwnedEvent, frozen=True, kw_only=True, tag="trigger.fired"):
    """The message and its run are in the session's log."""

    key: str


class TriggerSkipped(OwnedEvent, frozen=True, kw_only=True, tag="trigger.skipped"):
    """This occurrence was skipped."""

    key: str
    due_at_ms: int
    why: SkipReason
    seen_seq: int = 0


class TriggerMissed(OwnedEvent, frozen=True, kw_only=True, tag="trigger.missed"):
    """Scheduled times passed while no server was running. With `is_more`, there are more than `count`."""

    first_ms: int
    last_ms: int
    count: int
    then: MissedRule
    is_more: bool = False


class TriggerRunEnded(OwnedEvent, frozen=True, kw_only=True, tag="trigger.run_ended"):
    """A run of the trigger ended. Without an outcome, its session was deleted."""

    key: str
    outcome: OutcomeKind | None


class TriggerGaveUp(OwnedEvent, frozen=True, kw_only=True, tag="trigger.gave_up"):
    """The trigger was paused after too many consecutive failures."""

    failures: int


TriggerEvent: TypeAlias = (
    TriggerCreated
    | TriggerEdited
    | TriggerPaused
    | TriggerResumed
    | TriggerRunAsked
    | TriggerMissedAnswered
    | HookDelivered
    | TriggerDue
    | TriggerScriptStarted
    | TriggerScriptEnded
    | TriggerFired
    | TriggerSkipped
    | TriggerMissed
    | TriggerRunEnded
    | TriggerGaveUp
)
EVENTS: tuple[type[Event], ...] = get_args(TriggerEvent)
