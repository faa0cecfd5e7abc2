"""Classifies Slack's replies to deliveries and lookups."""

from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    FormatRefused,
    MayHaveArrived,
    NotAccepted,
    NotThere,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.messages import Unanswered, Unwritten
from holdfast.features.channels.slack.api import SlackDone, SlackFailure, SlackReply

# Slack takes nothing for this chat.
CHAT_GONE = frozenset(
    {
        "channel_not_found",
        "is_archived",
        "is_inactive",
        "not_in_channel",
        "user_not_found",
        "user_disabled",
        "cannot_dm_bot",
        "messages_tab_disabled",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "restricted_action_non_threadable_channel",
        "thread_not_found",
        "thread_locked",
    }
)
# The app, not the message: it is sent once that works again.
APP_TROUBLE = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "missing_scope",
        "no_permission",
        "org_login_required",
        "ekm_access_denied",
        "team_access_not_granted",
        "access_denied",
    }
)
FORMAT_ERRORS = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "invalid_arguments",
        "invalid_metadata_format",
        "metadata_too_large",
        "metadata_must_be_sent_from_app",
    }
)


def unasked(reply: SlackReply) -> ProbeResult:
    """Why the platform said nothing about a message."""
    match reply:
        case SlackFailure(error="ratelimited") as limited:
            return DidNotArrive("ratelimited", limited.retry_after_s)
        case SlackFailure(error="missing_scope" | "no_permission"):
            return CannotTell()
        case SlackFailure(error=error) if error in CHAT_GONE:
            return NotThere()  # the resend is rejected permanently
        case SlackFailure(error=error):
            return DidNotArrive(error)
        case Unwritten(why=why) | Unanswered(why=why):
            return DidNotArrive(why)
        case SlackDone():
            raise AssertionError("that is an answer")


def sent_as(reply: SlackReply) -> SendResult:
    """Classify a reply about a message."""
    match reply:
        case SlackDone(value=value):
            return Arrived(str(value.get("ts", "")))
        case Unwritten(why=why):
            return DidNotArrive(why)
        case Unanswered(why=why):
            return MayHaveArrived(why)
        case SlackFailure(error="ratelimited") as limited:
            return DidNotArrive("ratelimited", limited.retry_after_s)
        case SlackFailure(error=error) if error in APP_TROUBLE:
            return DidNotArrive(error)
        case SlackFailure(error=error) if error in FORMAT_ERRORS:
            return FormatRefused(error)
        case SlackFailure(error=error):
            return NotAccepted(error, ends_chat=error in CHAT_GONE)
