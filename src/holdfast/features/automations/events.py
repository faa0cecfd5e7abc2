"""What can happen to a trigger, in the log of its own.

What is about to be asked is on the log before it is asked: `trigger.due` has the ids of the message and the
run, which follow from the trigger and `key`. So after a crash it is asked under the same ids, and only once.
"""

from typing import Literal, TypeAlias, get_args

from holdfast.events.bases import Event, Input, OwnedEvent
from holdfast.features.automations.values import MissedRule, TriggerSettings
from holdfast.values import BlobRef, OutcomeKind

SkipReason: TypeAlias = Literal["overlap", "paused", "duplicate", "queue_full", "session_deleted"]


class TriggerCreated(Input, frozen=True, kw_only=True, tag="trigger.created"):
    """The trigger exists; `key` is the name of the API key that made it, and that its runs count for.

    `seen_seq` is the end of the log of the session whose runs it waits for.
    """

    settings: TriggerSettings
    paused: bool = False
    key: str = ""
    seen_seq: int = 0


class TriggerEdited(Input, frozen=True, kw_only=True, tag="trigger.edited"):
    """From the next instant on, these settings hold.

    `from_ms` is the time at which it was edited. The event's own time may be later, if the clock was wrong
    before, because the times of a log never go back.
    """

    settings: TriggerSettings
    by: str = ""
    seen_seq: int = 0
    from_ms: int = 0


class TriggerPaused(Input, frozen=True, kw_only=True, tag="trigger.paused"):
    """Nothing fires until it is resumed, unless a person asks for it."""

    by: str = ""


class TriggerResumed(Input, frozen=True, kw_only=True, tag="trigger.resumed"):
    """The trigger fires again, from its next scheduled time on.

    `from_ms` is the time of the resume, and resets a cursor that moved while the clock was ahead. The event's
    own time can be later, because the times in a log never decrease.
    """

    by: str = ""
    from_ms: int = 0


class TriggerRunAsked(Input, frozen=True, kw_only=True, tag="trigger.run_asked"):
    """A person wants it to fire now."""

    request_id: str
    by: str = ""


class TriggerMissedAnswered(Input, frozen=True, kw_only=True, tag="trigger.missed_answered"):
    """A person said whether the instants that were missed are to be made up for, with one run."""

    run: bool
    by: str = ""


class HookDelivered(Input, frozen=True, kw_only=True, tag="hook.delivered"):
    """Another program posted something, and its signature is right; `blob` has the body."""

    delivery_id: str  # the same for each delivery of the same thing
    blob: BlobRef
    bytes: int
    event: str = ""  # what the sender calls it


class TriggerDue(OwnedEvent, frozen=True, kw_only=True, tag="trigger.due"):
    """This is asked next, under these ids; `missed` instants before it were not."""

    key: str
    due_at_ms: int
    session_id: str
    message_id: str
    run_id: str
    missed: int = 0
    seen_seq: int = 0


class TriggerFired(OwnedEvent, frozen=True, kw_only=True, tag="trigger.fired"):
    """The message and its run are in the session's log."""

    key: str


class TriggerSkipped(OwnedEvent, frozen=True, kw_only=True, tag="trigger.skipped"):
    """Nothing is asked this time."""

    key: str
    due_at_ms: int
    why: SkipReason
    seen_seq: int = 0


class TriggerMissed(OwnedEvent, frozen=True, kw_only=True, tag="trigger.missed"):
    """Instants passed while nobody was there to fire; `is_more` if `count` is not all of them."""

    first_ms: int
    last_ms: int
    count: int
    then: MissedRule
    is_more: bool = False


class TriggerRunEnded(OwnedEvent, frozen=True, kw_only=True, tag="trigger.run_ended"):
    """What became of a run; without an outcome, its session was removed."""

    key: str
    outcome: OutcomeKind | None


class TriggerGaveUp(OwnedEvent, frozen=True, kw_only=True, tag="trigger.gave_up"):
    """So many runs failed in a row that it is paused."""

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
    | TriggerFired
    | TriggerSkipped
    | TriggerMissed
    | TriggerRunEnded
    | TriggerGaveUp
)
EVENTS: tuple[type[Event], ...] = get_args(TriggerEvent)
