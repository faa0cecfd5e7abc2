"""What happens in the log of a channel: who may talk, what came in, and which session a chat belongs to."""

from typing import Literal, TypeAlias

from holdfast.events.bases import Input, OwnedEvent

UpdateBecame: TypeAlias = Literal["message", "steer", "edit", "command", "answer", "refused", "ignored"]


class ChannelConnected(OwnedEvent, frozen=True, kw_only=True, tag="channel.connected"):
    """The platform answers; `account` is the name that it knows this channel by."""

    account: str = ""
    missed: str = ""  # what it may not have told since the connection before, in words


class ChannelFailed(OwnedEvent, frozen=True, kw_only=True, tag="channel.failed"):
    """The platform doesn't answer, or refuses the channel. It is tried again."""

    why: str
    hint: str = ""


class ChannelCodeMade(Input, frozen=True, kw_only=True, tag="channel.code_made"):
    """Whoever sends this code to the channel may talk to it; the log has only its digest."""

    digest: str
    expires_at_ms: int
    by: str = ""


class ChannelCodeTried(OwnedEvent, frozen=True, kw_only=True, tag="channel.code_tried"):
    """Someone sent a wrong code; or `code` is the digest of a right one that they don't need: it is void."""

    user: str
    code: str = ""


class ChannelUserAllowed(Input, frozen=True, kw_only=True, tag="channel.user_allowed"):
    """This person may talk, and with the role `approver` also approve. A code that let them in is used up."""

    user: str
    name: str = ""
    role: Literal["user", "approver"] = "user"
    by: str = ""
    code: str = ""  # the digest of the code


class ChannelUserRevoked(Input, frozen=True, kw_only=True, tag="channel.user_revoked"):
    """This person may no longer talk, whatever the settings say."""

    user: str
    by: str = ""


class ChannelChatBound(OwnedEvent, frozen=True, kw_only=True, tag="channel.chat_bound"):
    """From here on, what is said in this chat belongs to this session."""

    chat: str
    session_id: str


class ChannelModelChosen(OwnedEvent, frozen=True, kw_only=True, tag="channel.model_chosen"):
    """Messages of this chat go to this model; an empty name is the channel's own."""

    chat: str
    model: str = ""


class ChannelUpdateTaken(OwnedEvent, frozen=True, kw_only=True, tag="channel.update_taken"):
    """Something that came in, and what it became. The same key again is a repeat, and becomes nothing."""

    key: str
    became: UpdateBecame
    chat: str = ""
    user: str = ""
    platform_id: str = ""  # of the message
    session_id: str = ""
    message_id: str = ""  # awaits an answer
    why: str = ""
    conversation: str = ""  # where the platform lists it, if one can catch up from there


class ChannelResultWanted(Input, frozen=True, kw_only=True, tag="channel.result_wanted"):
    """This chat is to be told what becomes of a message that came from elsewhere, such as a trigger."""

    chat: str
    session_id: str
    message_id: str
    by: str = ""
    title: str = ""  # how people know it: the name of the trigger


class ChannelMessageSettled(OwnedEvent, frozen=True, kw_only=True, tag="channel.message_settled"):
    """What there is to say about this message is intended."""

    message_id: str
    why: str = ""
    chat: str = ""  # whose wish to know is settled; empty: that of the chat that it came from
