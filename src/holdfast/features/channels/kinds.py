"""The kinds of channels. Each platform's folder declares one as `KIND`, and `catalog.py` lists the names."""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.config.channels import ChannelSettings
from holdfast.config.sources import ConfigIssue

if TYPE_CHECKING:
    from holdfast.decisions.hook_signatures import HookSignature

CHECK_S = 20.0  # how long a platform may take to answer `holdfast doctor`
NETWORK = "check the network, and `base_url` if it's set"
SLACK_ONLY = ("app_token", "signing_secret")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def is_number(text: str) -> bool:
    """Whether this is a numeric id."""
    return text.isascii() and text.isdigit()


def _no_issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    del channel
    yield from ()


class ChannelKind(Struct, frozen=True, kw_only=True):
    """A chat platform: its people's ids, its settings, and how it proves its requests to this server."""

    is_user_id: Callable[[str], bool] = is_number  # names aren't ids, because anyone can take one
    user_id: str = "a numeric id"
    issues: Callable[[ChannelSettings], Iterator[ConfigIssue]] = _no_issues
    has_app_token: bool = False
    # The setting with the key of its signatures. Empty: it sends a secret that we chose in a header.
    signed_with: str = ""
    signature: "HookSignature" = "slack"
    needs_webhook_url: bool = True  # it only calls this server if `webhook_url` is set


def channel_kind(kind: str) -> ChannelKind:
    """Return the declaration of a kind. Blocks until it's imported, which checking the settings does."""
    return import_module(f"holdfast.features.channels.{kind}").KIND


def platform_module(kind: str) -> Any:
    """Import the module of a platform. Blocks.

    `open_channel` opens it, `check` is its check by `holdfast doctor`, and `DIALECT` is its format.
    """
    return import_module(f"holdfast.features.channels.{kind}.channel")


def channel_issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    """Check settings of a channel that are each valid."""
    kind = channel_kind(channel.kind)
    if not _NAME.fullmatch(channel.name):
        yield ConfigIssue(("name",), "must be 1 to 32 letters, digits, - or _")
    if channel.name == "webhooks":
        yield ConfigIssue(("name",), "must not be webhooks, which is reserved for posting results")
    if not channel.token:
        yield ConfigIssue(("token",), "must not be empty")
    for key in () if kind.has_app_token else SLACK_ONLY:
        if getattr(channel, key):
            yield ConfigIssue((key,), "works only with Slack")
    yield from kind.issues(channel)
    for key, ids in (("allow", channel.allow), ("approvers", channel.approvers)):
        for index, one in enumerate(ids):
            if not kind.is_user_id(one):
                text = f"must be {kind.user_id}, as `holdfast channels log` shows it"
                yield ConfigIssue((key, index), text)
