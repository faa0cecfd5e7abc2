"""Request and response bodies of /api/channels."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ResponseBody, one_of
from holdfast.api.runs import ShortText

SENT_BYTES_MAX = 16 * 1024 * 1024  # of a file that someone sends to a chat


class PairRequest(msgspec.Struct):
    """The optional body of POST /api/channels/{name}/pair."""


class AllowRequest(msgspec.Struct):
    """The body of POST /api/channels/{name}/users."""

    user: ShortText
    role: Literal["user", "approver"] = "user"


class ChannelTestRequest(msgspec.Struct):
    """The body of POST /api/channels/{name}/test."""

    chat: ShortText


class ChannelMessageRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /api/channels/{name}/messages: a text, a file, or both."""

    chat: Annotated[str, msgspec.Meta(description="Default: the channel's home chat.", max_length=500)] = ""
    text: Annotated[str, msgspec.Meta(description="Markdown.", max_length=100_000)] = ""
    blob: Annotated[str, msgspec.Meta(description="A file of up to 16 MB from POST /api/blobs.")] = ""
    name: Annotated[str, msgspec.Meta(description="Name of the file.", max_length=255)] = "file"
    media_type: Annotated[str, msgspec.Meta(max_length=255)] = "application/octet-stream"


class ChannelMessageShown(ResponseBody, frozen=True, kw_only=True):
    """A message to a chat and its delivery status. `unconfirmed` means that it may have arrived."""

    id: str
    channel: str
    chat: str
    state: Annotated[str, one_of("pending", "delivered", "rejected", "unconfirmed")]
    why: str = ""  # it isn't delivered


class ChannelUserShown(ResponseBody, frozen=True):
    """A person with access."""

    user: str
    name: str
    role: Annotated[str, one_of("user", "approver")]
    since: float  # 0 for people from the configuration
    how: Annotated[str, one_of("code", "allowed", "settings", "")] = ""
    by: str = ""  # the API key used to grant access


class ChannelShown(ResponseBody, frozen=True):
    """A channel and its connection status."""

    name: str
    kind: str
    state: Annotated[str, one_of("connected", "failed", "starting", "off", "not_configured")]
    since: float
    account: str = ""
    problem: str = ""
    hint: str = ""
    node: str = ""
    users: tuple[ChannelUserShown, ...] = ()
    chats: int = 0
    home: str = ""  # the chat for results that name only the channel
    awaited: int = 0  # unanswered messages
    undelivered: int = 0
    given_up: int = 0  # unconfirmed deliveries
    rejected: int = 0  # deliveries rejected by the platform


class ChannelList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All channels."""

    data: tuple[ChannelShown, ...]


class PairingCode(ResponseBody, frozen=True):
    """The code to send to the bot. Only this response contains it."""

    code: str
    expires_in_s: int

    def __repr__(self) -> str:
        """Keep the code out of logs and tracebacks."""
        return "PairingCode()"


class ChannelUserChanged(ResponseBody, frozen=True):
    """The person's new access."""

    channel: str
    user: str
    allowed: bool


class ChannelTestIntended(ResponseBody, frozen=True):
    """The test message is queued. The log shows its delivery status."""

    channel: str
    chat: str
    delivery: str


class ChannelUpdateAccepted(ResponseBody, frozen=True):
    """The update is stored. Duplicates are ignored."""

    accepted: bool


class ChannelLogEntry(ResponseBody, frozen=True):
    """An event in a channel."""

    seq: int
    at: float
    type: str
    chat: str = ""
    user: str = ""
    what: str = ""
    delivery: str = ""  # key of the outgoing message


class ChannelHistory(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The events of a channel, newest last."""

    data: tuple[ChannelLogEntry, ...]
