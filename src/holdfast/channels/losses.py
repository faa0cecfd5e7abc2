"""Decides what a chat is told about a message that may be missing there.

It is pure: a delivery and what became of it in, an intent out. A message of which nobody knows whether it
arrived, and one that the platform doesn't take, are said to be so in the chat itself. Only what people would
miss counts: no preview, no change of a card, and no such notice itself.
"""

from collections.abc import Sequence

from holdfast import events as e
from holdfast.channels.answers import DECIDED, PREVIEW, message_of
from holdfast.channels.said import GONE
from holdfast.folds.outbox import OutboxEntry

LOST = "lost"
UNCLEAR = (
    "I couldn't find out whether one of my messages arrived here. If something is missing, you can read it "
    "on the page."
)
NOT_TAKEN = "One of my messages wasn't accepted here. You can read it on the page. The reason: {why}"
WHY_CHARS_MAX = 200


def loss_notices(delivery: OutboxEntry, record: e.Event, now_ms: int) -> Sequence[e.Event]:
    """The intent to say that a message may be missing; none if nothing is."""
    match record:
        case e.DeliveryUnknown(given_up=True):
            body = UNCLEAR
        case e.DeliveryRejected(moot=False, ends_chat=False, why=why) if why != GONE:
            body = NOT_TAKEN.format(why=why[:WHY_CHARS_MAX])
        case _:
            return ()
    intended = delivery.intended
    if intended.removes or not _is_missed(message_of(intended)) or intended.message.endswith(f".{LOST}"):
        return ()
    # The parts of one answer share a notice: its key doesn't have their number.
    message = f"{intended.message}.{LOST}"
    return (
        e.DeliveryIntended(at_ms=now_ms, chat=intended.chat, message=message, run=intended.run, body=body),
    )


def _is_missed(message: str) -> bool:
    return message != PREVIEW and not message.endswith(f".{DECIDED}")
