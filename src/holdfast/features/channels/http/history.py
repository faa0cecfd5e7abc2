"""The log of a channel as people read it: one line for each event, without what people wrote."""

from holdfast import events as e
from holdfast.codec import type_of
from holdfast.events import Event
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelMessageClosed,
    ChannelUpdateLogged,
    ChannelUserAllowed,
    ChannelUserRevoked,
)
from holdfast.features.channels.http.bodies import ChannelLogEntry
from holdfast.features.channels.state import BY_CODE
from holdfast.folds.outbox import Outbox
from holdfast.interfaces.journal import Record
from holdfast.safe_text import safe_line, sentences

WHAT_CHARS_MAX = 200


def log_entry(record: Record, outbox: Outbox) -> ChannelLogEntry:
    """One event of the log."""
    event = record.event
    key = event.key if isinstance(event, e.DeliveryIntended) else getattr(event, "delivery", "")
    delivery = outbox.deliveries.get(key)
    return ChannelLogEntry(
        seq=record.seq,
        at=event.at_ms / 1000,
        type=type_of(event),
        chat=getattr(event, "chat", "") or (delivery.intended.chat if delivery is not None else ""),
        user=getattr(event, "user", ""),
        what=safe_line(_of_delivery(event) if key else _of_channel(event), WHAT_CHARS_MAX),
        delivery=key,
    )


def _of_delivery(event: Event) -> str:
    match event:
        case e.DeliveryIntended(parts=parts) if parts > 1:
            return f"part {event.part + 1} of {parts}"
        case e.DeliveryConfirmed(platform_id=platform_id) if platform_id:
            found = ", found there" if event.found else ""
            return f"message {platform_id}{found}"
        case e.DeliveryAttempted():
            mark = ", marked as a possible repeat" if event.marked else ""
            mark += ", because it wasn't delivered" if event.absent else ""
            return f"attempt {event.nth}{mark}"
        case e.DeliveryPostponed():
            return f"{event.why}; will be resent"
        case e.DeliveryRejected():
            return event.why
        case e.DeliveryUnknown():
            return f"{event.why}; " + ("abandoned" if event.given_up else "will be resent, marked")
        case _:
            return ""


def _of_channel(event: Event) -> str:
    match event:
        case ChannelUpdateLogged():
            return f"{event.became}: {event.why}" if event.why else event.became
        case ChannelFailed():
            return sentences(event.why, event.hint)
        case ChannelConnected():
            return f"{event.account}; possibly lost: {event.missed}" if event.missed else event.account
        case ChannelUserAllowed():
            by = "with a code" if event.by == BY_CODE else f"by {event.by}" if event.by else ""
            return f"{event.name} as {event.role} {by}".strip()
        case ChannelUserRevoked(by=by) if by:
            return f"by {by}"
        case ChannelMessageClosed():
            return event.why
        case _:
            return ""
