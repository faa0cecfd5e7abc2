"""Matrix: unencrypted rooms of a homeserver."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from holdfast.config.channels import ChannelSettings
from holdfast.config.sources import ConfigIssue
from holdfast.features.channels.kinds import ChannelKind

_USER_ID = re.compile(r"@[^\s:]{1,200}:[^\s/]{1,200}")


def _issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    if urlsplit(channel.base_url).scheme not in {"http", "https"}:
        yield ConfigIssue(("base_url",), "must be the homeserver's URL, such as https://matrix.example.com")


KIND = ChannelKind(
    is_user_id=lambda text: _USER_ID.fullmatch(text) is not None,
    user_id="an id such as @ann:example.com",
    issues=_issues,
)
