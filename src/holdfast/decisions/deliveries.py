"""Decides the next step of a delivery, and the event for the outcome of an attempt."""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from msgspec import Struct

from holdfast import events as e
from holdfast.folds.outbox import Outbox, OutboxEntry

BACKOFF_FIRST_S = 1.0
BACKOFF_LAST_S = 60.0
LIMITED_S_MAX = 3_600.0
# How long to wait each time that it is unclear whether it arrived; after the last it is given up. All of them
# take longer than a platform that fails for an hour.
UNKNOWN_WAITS_S = (1.0, 10.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0)
INTERRUPTED = "the server stopped while it was being sent"


class Arrived(Struct, frozen=True):
    """The platform has it, under this id."""

    platform_id: str


class DidNotArrive(Struct, frozen=True):
    """It certainly didn't arrive: the request wasn't written, or the platform said to come back later."""

    why: str
    again_after_s: float | None = None  # as the platform said


class MayHaveArrived(Struct, frozen=True):
    """The request was written, but its outcome is unknown."""

    why: str


class NotAccepted(Struct, frozen=True):
    """The platform doesn't take it, and wouldn't later; `ends_chat` if it takes nothing for the chat."""

    why: str
    ends_chat: bool = False


class FormatRefused(Struct, frozen=True):
    """The platform doesn't take it like this; it may take its plain text."""

    why: str


class EditRefused(Struct, frozen=True):
    """The message can't be edited, for example because it was deleted; it can be sent as a new one."""

    why: str


class NoLongerNeeded(Struct, frozen=True):
    """Nothing was sent, because the content is obsolete."""

    why: str


SendResult: TypeAlias = (
    Arrived | DidNotArrive | MayHaveArrived | NotAccepted | FormatRefused | EditRefused | NoLongerNeeded
)


class FoundThere(Struct, frozen=True):
    """The platform has the message that an earlier attempt may have brought there."""

    platform_id: str


class NotThere(Struct, frozen=True):
    """The platform certainly doesn't have it."""


class CannotTell(Struct, frozen=True):
    """The platform offers no way to find out."""


ProbeResult: TypeAlias = (
    FoundThere | NotThere | CannotTell | DidNotArrive
)  # the last: the question didn't arrive


class SendNow(Struct, frozen=True):
    """Send it; `is_marked` if it says that it may be a repeat, unless the platform can be asked."""

    nth: int
    is_marked: bool


class SendLater(Struct, frozen=True):
    """Send it later."""

    at_ms: int


class RecordFirst(Struct, frozen=True):
    """Append this event, then look again."""

    event: e.DeliveryUnknown | e.DeliveryRejected


NextStep: TypeAlias = SendNow | SendLater | RecordFirst


def next_step(outbox: Outbox, delivery: OutboxEntry, now_ms: int) -> NextStep:
    """Decide the next step of an open delivery."""
    closed = outbox.closed_chats.get(delivery.intended.chat)
    if delivery.state == "attempted":
        # Its sender died, or it would have logged the outcome.
        return RecordFirst(_unknown(delivery, now_ms, INTERRUPTED, waits_s=(0.0, *UNKNOWN_WAITS_S)))
    if closed is not None:
        return RecordFirst(e.DeliveryRejected(at_ms=now_ms, delivery=delivery.key, why=closed))
    if now_ms < delivery.until_ms:
        return SendLater(delivery.until_ms)
    edited = outbox.deliveries.get(delivery.intended.edits)
    # The lost preview of an answer may be in the chat, with a part of the same words.
    may_repeat = edited is not None and not edited.platform_id and edited.may_have_arrived
    is_marked = delivery.is_new and (delivery.may_have_arrived or may_repeat)
    return SendNow(delivery.attempts + 1, is_marked=is_marked)


def record_of(
    delivery: OutboxEntry, result: SendResult, now_ms: int
) -> e.DeliveryConfirmed | e.DeliveryPostponed | e.DeliveryRejected | e.DeliveryUnknown:
    """Return the event for the outcome of an attempt."""
    key = delivery.key
    match result:
        case Arrived():
            return e.DeliveryConfirmed(at_ms=now_ms, delivery=key, platform_id=result.platform_id)
        case DidNotArrive():
            wait_s = min(BACKOFF_FIRST_S * 2 ** min(delivery.attempts - 1, 6), BACKOFF_LAST_S)
            if result.again_after_s is not None:
                wait_s = min(max(result.again_after_s, 0.0), LIMITED_S_MAX)
            until_ms = now_ms + int(wait_s * 1000)
            return e.DeliveryPostponed(at_ms=now_ms, delivery=key, why=result.why, until_ms=until_ms)
        case MayHaveArrived():
            # A change that is made twice is still one change, so it is first repeated at once.
            waits_s = UNKNOWN_WAITS_S if delivery.is_new else (0.0, *UNKNOWN_WAITS_S)
            return _unknown(delivery, now_ms, result.why, waits_s=waits_s)
        case NotAccepted():
            return e.DeliveryRejected(at_ms=now_ms, delivery=key, why=result.why, ends_chat=result.ends_chat)
        case FormatRefused() if delivery.is_plain:
            return e.DeliveryRejected(at_ms=now_ms, delivery=key, why=result.why)
        case FormatRefused():
            return e.DeliveryPostponed(
                at_ms=now_ms, delivery=key, why=result.why, until_ms=now_ms, plain=True
            )
        case EditRefused():
            return e.DeliveryPostponed(at_ms=now_ms, delivery=key, why=result.why, until_ms=now_ms, anew=True)
        case NoLongerNeeded():
            return e.DeliveryRejected(at_ms=now_ms, delivery=key, why=result.why, moot=True)
        case _:
            assert_never(result)


def _unknown(delivery: OutboxEntry, now_ms: int, why: str, *, waits_s: Sequence[float]) -> e.DeliveryUnknown:
    """Longer each time, so that a server or a platform that keeps failing doesn't use up all attempts."""
    is_last = delivery.unknowns >= len(UNKNOWN_WAITS_S)
    wait_s = 0.0 if is_last else waits_s[delivery.unknowns]
    until_ms = now_ms + int(wait_s * 1000) if wait_s else 0
    return e.DeliveryUnknown(
        at_ms=now_ms, delivery=delivery.key, why=why, given_up=is_last, until_ms=until_ms
    )
