"""Who may talk to a channel, and who may approve."""

from holdfast.channels.deps import ChannelOptions
from holdfast.folds.channel import ChannelState
from holdfast.interfaces.ids import CODE_CHARS, CODE_LETTERS


def looks_like_code(text: str) -> bool:
    """Whether this is meant as a code, right or wrong."""
    word = text.strip().upper()
    return len(word) == CODE_CHARS and set(word) <= set(CODE_LETTERS)


def may_talk(options: ChannelOptions, state: ChannelState, user: str) -> bool:
    """Whether this person is allowed: by the settings or by the log. Who was revoked is not."""
    return user not in state.revoked and (user in options.allow or user in state.users)


def may_approve(options: ChannelOptions, state: ChannelState, user: str) -> bool:
    """Whether this person may decide what the agent does: the named approvers, else who was paired."""
    if not may_talk(options, state, user):
        return False
    if options.approvers:
        return user in options.approvers
    known = state.users.get(user)
    return known is not None and known.role == "approver"
