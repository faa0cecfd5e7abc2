"""What is said to a chat platform or another program: an event before it is said, and what became of it.

The key of a delivery is its run, its message and its part. The owner of the log sends; anyone may intend.
"""

from holdfast.events.bases import Input, OwnedEvent


class DeliveryIntended(Input, frozen=True, kw_only=True, tag="delivery.intended"):
    """Something is to be said.

    Either `body` has the words, or `message` says which words of the run's session are meant: `answer`,
    `ending`, `preview`, `file` or the id of an ask. Words and files of a session stay in its log alone, and
    go with it.
    """

    chat: str
    message: str
    part: int = 0
    parts: int = 1
    run: str = ""
    session_id: str = ""
    body: str = ""
    edits: str = ""  # the key of the delivery that this one changes; empty: it is a new message
    reply_to: str = ""  # the platform's id of the message that this answers
    format: int = 1  # how the words are converted and split
    head: str = ""  # what they are about, for a chat that didn't ask for them: the name of a trigger
    removes: bool = False  # the message of `edits` is to be deleted

    @property
    def key(self) -> str:
        """What tells this delivery from all others."""
        return f"{self.run}/{self.message}/{self.part}"


class DeliveryAttempted(OwnedEvent, frozen=True, kw_only=True, tag="delivery.attempted"):
    """From here on it may have arrived; `marked` says that it tells people that it may be a repeat."""

    delivery: str
    nth: int = 1
    marked: bool = False
    absent: bool = False  # the platform was asked, and has nothing of earlier attempts


class DeliveryConfirmed(OwnedEvent, frozen=True, kw_only=True, tag="delivery.confirmed"):
    """The platform has it, under its own id."""

    delivery: str
    platform_id: str = ""
    found: bool = False  # the platform's answer was lost, and the message was found there by its key


class DeliveryPostponed(OwnedEvent, frozen=True, kw_only=True, tag="delivery.postponed"):
    """It certainly didn't arrive, and is sent again at this time."""

    delivery: str
    why: str
    until_ms: int
    plain: bool = False  # the platform refused its formatting: it is sent once more, as plain text
    anew: bool = False  # the message that it changes can't be changed: it is sent as a new one


class DeliveryRejected(OwnedEvent, frozen=True, kw_only=True, tag="delivery.rejected"):
    """The platform doesn't take it; `ends_chat` says that it takes nothing for this chat.

    One that is `moot` was no longer needed when its turn came, such as the preview of a complete answer.
    """

    delivery: str
    why: str
    ends_chat: bool = False
    moot: bool = False


class DeliveryUnknown(OwnedEvent, frozen=True, kw_only=True, tag="delivery.unknown"):
    """It may have arrived. It is sent once more, marked as a possible repeat, unless `given_up`."""

    delivery: str
    why: str
    given_up: bool = False
    until_ms: int = 0  # when it is sent again; 0: at once
