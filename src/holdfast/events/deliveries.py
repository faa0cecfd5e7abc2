"""Deliveries to a chat platform or another program: the intent before sending, and the outcome.

The key of a delivery is its run, message and part. Anyone can intend a delivery; the owner of the log sends
it.
"""

from holdfast.events.bases import Input, OwnedEvent
from holdfast.values import SentFile


class DeliveryIntended(Input, frozen=True, kw_only=True, tag="delivery.intended"):
    """A message or file is about to be delivered to a chat.

    Either `body` has the text or `file` is sent, or `message` selects content of the run's session: `answer`,
    `ending`, `preview`, `file` or the id of a request. A session's text and files stay in its own log, and
    are deleted with it.
    """

    chat: str
    message: str
    part: int = 0
    parts: int = 1
    run: str = ""
    session_id: str = ""
    body: str = ""
    edits: str = ""  # the key of the delivery to edit; empty: a new message
    reply_to: str = ""  # the platform's id of the message to reply to
    format: int = 1  # how the text is converted and split
    head: str = ""  # the source, for a chat that didn't request it: the name of a trigger
    removes: bool = False  # delete the message of `edits`
    file: SentFile | None = None

    @property
    def key(self) -> str:
        """Return the unique key of this delivery."""
        return f"{self.run}/{self.message}/{self.part}"


class DeliveryAttempted(OwnedEvent, frozen=True, kw_only=True, tag="delivery.attempted"):
    """The delivery is being sent and may have arrived. `marked` adds a note that it may be a repeat."""

    delivery: str
    nth: int = 1
    marked: bool = False
    absent: bool = False  # the platform confirmed that it has no earlier attempt


class DeliveryConfirmed(OwnedEvent, frozen=True, kw_only=True, tag="delivery.confirmed"):
    """The platform confirmed it, with the platform's id."""

    delivery: str
    platform_id: str = ""
    found: bool = False  # the platform's response was lost, but the message was found there by its key


class DeliveryPostponed(OwnedEvent, frozen=True, kw_only=True, tag="delivery.postponed"):
    """It didn't arrive, and will be resent at this time."""

    delivery: str
    why: str
    until_ms: int
    plain: bool = False  # the platform rejected its formatting, so it's resent as plain text
    anew: bool = False  # the message can't be edited, so it's sent as a new one


class DeliveryRejected(OwnedEvent, frozen=True, kw_only=True, tag="delivery.rejected"):
    """The platform rejected it. With `ends_chat`, it rejects everything for this chat.

    A `moot` delivery was no longer needed, such as the preview of a complete answer.
    """

    delivery: str
    why: str
    ends_chat: bool = False
    moot: bool = False


class DeliveryUnknown(OwnedEvent, frozen=True, kw_only=True, tag="delivery.unknown"):
    """It may have arrived. It's resent once, marked as a possible repeat, unless `given_up`."""

    delivery: str
    why: str
    given_up: bool = False
    until_ms: int = 0  # when it's resent; 0: immediately
