"""Checks who can talk to a channel and who can approve."""

from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.state import ChannelState
from holdfast.interfaces.ids import CODE_CHARS, CODE_LETTERS


def looks_like_code(text: str) -> bool:
    """Return whether this looks like a pairing code, valid or not."""
    word = text.strip().upper()
    return len(word) == CODE_CHARS and set(word) <= set(CODE_LETTERS)


def may_talk(options: ChannelOptions, state: ChannelState, user: str) -> bool:
    """Return whether this person has access: by configuration or log, unless revoked."""
    return user not in state.revoked and (user in options.allow or user in state.users)


def may_approve(options: ChannelOptions, state: ChannelState, user: str) -> bool:
    """Return whether this person can approve: configured approvers or, without any, paired people."""
    if not may_talk(options, state, user):
        return False
    if options.approvers:
        return user in options.approvers
    known = state.users.get(user)
    return known is not None and known.role == "approver"
