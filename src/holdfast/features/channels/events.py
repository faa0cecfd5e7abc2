"""Events in a channel's log: access, incoming updates, and the session of each chat."""

from typing import Literal, TypeAlias

from holdfast.events.bases import Event, Input, OwnedEvent

UpdateBecame: TypeAlias = Literal["message", "steer", "edit", "command", "answer", "refused", "ignored"]


class ChannelConnected(OwnedEvent, frozen=True, kw_only=True, tag="channel.connected"):
    """The channel connected. `account` is its name on the platform."""

    account: str = ""
    missed: str = ""  # updates possibly missed since the previous connection, as text


class ChannelFailed(OwnedEvent, frozen=True, kw_only=True, tag="channel.failed"):
    """The platform didn't respond or rejected the channel. Holdfast retries."""

    why: str
    hint: str = ""


class ChannelCodeCreated(Input, frozen=True, kw_only=True, tag="channel.code_made"):
    """A pairing code was created. The log has only its digest."""

    digest: str
    expires_at_ms: int
    by: str = ""


class ChannelCodeTried(OwnedEvent, frozen=True, kw_only=True, tag="channel.code_tried"):
    """Someone sent a wrong code, or voided the valid code with the digest `code` by sending it needlessly."""

    user: str
    code: str = ""


class ChannelUserAllowed(Input, frozen=True, kw_only=True, tag="channel.user_allowed"):
    """A person got access to talk and, as `approver`, to approve. Their pairing code is used up."""

    user: str
    name: str = ""
    role: Literal["user", "approver"] = "user"
    by: str = ""
    code: str = ""  # the digest of the code


class ChannelUserRevoked(Input, frozen=True, kw_only=True, tag="channel.user_revoked"):
    """A person's access was revoked, overriding the configuration."""

    user: str
    by: str = ""


class ChannelChatBound(OwnedEvent, frozen=True, kw_only=True, tag="channel.chat_bound"):
    """The chat was bound to this session."""

    chat: str
    session_id: str


class ChannelModelChosen(OwnedEvent, frozen=True, kw_only=True, tag="channel.model_chosen"):
    """The chat's model was set. An empty name means the channel's default."""

    chat: str
    model: str = ""


class ChannelHomeChosen(OwnedEvent, frozen=True, kw_only=True, tag="channel.home_chosen"):
    """The channel's home chat was set. An empty chat means none."""

    chat: str
    by: str = ""  # empty: the configuration


class ChannelUpdateLogged(OwnedEvent, frozen=True, kw_only=True, tag="channel.update_taken"):
    """An incoming update and its outcome. Updates with the same key are duplicates and ignored."""

    key: str
    became: UpdateBecame
    chat: str = ""
    user: str = ""
    platform_id: str = ""  # of the message
    session_id: str = ""
    message_id: str = ""  # it awaits an answer
    why: str = ""
    conversation: str = ""  # its position on the platform, for catching up


class ChannelResultRequested(Input, frozen=True, kw_only=True, tag="channel.result_wanted"):
    """This chat receives the result of a message from elsewhere, such as a trigger."""

    chat: str
    session_id: str
    message_id: str
    by: str = ""
    title: str = ""  # its name for people: the trigger's name


class ChannelMessageClosed(OwnedEvent, frozen=True, kw_only=True, tag="channel.message_settled"):
    """The message is complete: all its deliveries are intended."""

    message_id: str
    why: str = ""
    chat: str = ""  # the chat that is done; empty: the chat it came from


EVENTS: tuple[type[Event], ...] = (
    ChannelConnected,
    ChannelFailed,
    ChannelCodeCreated,
    ChannelCodeTried,
    ChannelUserAllowed,
    ChannelUserRevoked,
    ChannelChatBound,
    ChannelModelChosen,
    ChannelHomeChosen,
    ChannelUpdateLogged,
    ChannelResultRequested,
    ChannelMessageClosed,
)
