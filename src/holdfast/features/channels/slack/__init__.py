"""Slack: its Web API and Socket Mode, and how a channel speaks them."""

from collections.abc import Iterator

from holdfast.config.channels import ChannelSettings
from holdfast.config.sources import ConfigIssue
from holdfast.features.channels.kinds import ChannelKind


def _is_user_id(text: str) -> bool:
    return text[:1] in {"U", "W"} and text.isascii() and text.isalnum() and text.isupper()


def _issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    if channel.webhook_url and not channel.signing_secret:
        yield ConfigIssue(
            ("signing_secret",),
            "must not be empty while webhook_url is set: it verifies calls from Slack. Copy it from the page "
            "Basic Information of your app",
        )
    elif not channel.webhook_url and not channel.app_token:
        yield ConfigIssue(
            ("app_token",),
            "must not be empty: Slack needs it for Socket Mode. To use a webhook instead, set webhook_url "
            "and signing_secret",
        )


KIND = ChannelKind(
    is_user_id=_is_user_id,
    user_id="an id such as U012AB3CD",
    issues=_issues,
    has_app_token=True,
    signed_with="signing_secret",
    signature="slack",
)
