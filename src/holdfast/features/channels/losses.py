"""Computes notices about messages that may be missing in a chat.

Pure: a delivery and its outcome in, an intent out. Unconfirmed and rejected messages are reported in the chat
itself, except for previews, card updates and these notices.
"""

from collections.abc import Sequence

from holdfast import events as e
from holdfast.features.channels.deliveries import DECIDED, PREVIEW, message_key
from holdfast.features.channels.outbound import GONE
from holdfast.folds.outbox import OutboxEntry

LOST = "lost"
UNCLEAR = "One of the agent's messages may not have arrived. If something is missing, read it on the page."
NOT_TAKEN = "One of the agent's messages was rejected here. You can read it on the page. Reason: {why}"
WHY_CHARS_MAX = 200


def loss_notices(delivery: OutboxEntry, record: e.Event, now_ms: int) -> Sequence[e.Event]:
    """Build the notice that a message may be missing; empty if none is."""
    match record:
        case e.DeliveryUnknown(given_up=True):
            body = UNCLEAR
        case e.DeliveryRejected(moot=False, ends_chat=False, why=why) if why != GONE:
            body = NOT_TAKEN.format(why=why[:WHY_CHARS_MAX])
        case _:
            return ()
    intended = delivery.intended
    if intended.removes or not _is_missed(message_key(intended)) or intended.message.endswith(f".{LOST}"):
        return ()
    # The parts of one answer share a notice, so its key has no part number.
    message = f"{intended.message}.{LOST}"
    return (
        e.DeliveryIntended(at_ms=now_ms, chat=intended.chat, message=message, run=intended.run, body=body),
    )


def _is_missed(message: str) -> bool:
    return message != PREVIEW and not message.endswith(f".{DECIDED}")
