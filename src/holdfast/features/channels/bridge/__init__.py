"""A bridge: any chat system behind a small program that signs webhooks."""

from collections.abc import Iterator

from holdfast.config.channels import ChannelSettings
from holdfast.config.sources import ConfigIssue
from holdfast.features.channels.kinds import ChannelKind

SECRET_CHARS_MIN, ID_CHARS_MAX = 24, 200


def _is_user_id(text: str) -> bool:
    return 0 < len(text) <= ID_CHARS_MAX and text.isprintable() and " " not in text


def _issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    if not channel.base_url:
        yield ConfigIssue(("base_url",), "must be the bridge's URL")
    if channel.token and len(str(channel.token)) < SECRET_CHARS_MIN:
        yield ConfigIssue(("token",), f"must have at least {SECRET_CHARS_MIN} characters")
    if channel.webhook_url:
        text = "has no effect: the bridge calls /hooks/channels/ and the channel's name at this server"
        yield ConfigIssue(("webhook_url",), text)


KIND = ChannelKind(
    is_user_id=_is_user_id,
    user_id="an id without spaces",
    issues=_issues,
    signed_with="token",
    signature="standard",
    needs_webhook_url=False,
)
