"""The bodies of /api/channels."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ResponseBody, one_of
from holdfast.api.runs import ShortText


class PairRequest(msgspec.Struct):
    """The body of POST /api/channels/{name}/pair; it is optional."""


class AllowRequest(msgspec.Struct):
    """The body of POST /api/channels/{name}/users."""

    user: ShortText
    role: Literal["user", "approver"] = "user"


class ChannelTestRequest(msgspec.Struct):
    """The body of POST /api/channels/{name}/test."""

    chat: ShortText


class ChannelUserShown(ResponseBody, frozen=True):
    """A person who may talk."""

    user: str
    name: str
    role: Annotated[str, one_of("user", "approver")]
    since: float  # 0: as long as the settings name them
    how: Annotated[str, one_of("code", "allowed", "settings", "")] = ""
    by: str = ""  # the key with which someone allowed them


class ChannelShown(ResponseBody, frozen=True):
    """A channel, and whether its platform works."""

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
    awaited: int = 0  # messages without an answer yet
    undelivered: int = 0
    given_up: int = 0  # deliveries of which nobody knows whether they arrived
    rejected: int = 0  # deliveries that the platform did not take


class ChannelList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All channels."""

    data: tuple[ChannelShown, ...]


class PairingCode(ResponseBody, frozen=True):
    """The code to send to the bot; it is shown here and never again."""

    code: str
    expires_in_s: int

    def __repr__(self) -> str:
        """The code stays out of logs and tracebacks."""
        return "PairingCode()"


class ChannelUserChanged(ResponseBody, frozen=True):
    """Who may talk now."""

    channel: str
    user: str
    allowed: bool


class ChannelTestIntended(ResponseBody, frozen=True):
    """The test message is in the outbox; the log says what becomes of it."""

    channel: str
    chat: str
    delivery: str


class ChannelUpdateAccepted(ResponseBody, frozen=True):
    """The update is on disk; one that came before has no second effect."""

    accepted: bool


class ChannelLogEntry(ResponseBody, frozen=True):
    """Something that happened in a channel."""

    seq: int
    at: float
    type: str
    chat: str = ""
    user: str = ""
    what: str = ""
    delivery: str = ""  # the message to the chat that it is about


class ChannelHistory(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """What happened in a channel, the newest last."""

    data: tuple[ChannelLogEntry, ...]
