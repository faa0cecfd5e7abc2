"""E-mail: a mailbox by IMAP, and answers by SMTP."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from holdfast.config.channels import ChannelSettings
from holdfast.config.sources import ConfigIssue
from holdfast.features.channels.kinds import ChannelKind

_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9.-]{1,190}")


def is_address(text: str) -> bool:
    """Whether this is a plain address in its one form."""
    return _ADDRESS.fullmatch(text) is not None and text == text.lower()


def _issues(channel: ChannelSettings) -> Iterator[ConfigIssue]:
    if not is_address(channel.address):
        yield ConfigIssue(("address",), "must be an address in lowercase, such as agent@example.com")
    for key, kind in (("imap_url", "imap"), ("smtp_url", "smtp")):
        if urlsplit(str(getattr(channel, key))).scheme not in {kind, f"{kind}s"}:
            yield ConfigIssue((key,), f"must be a URL such as {kind}s://{kind}.example.com")
    if not channel.authserv_id:
        text = "must be the name in your mail server's header Authentication-Results, or none"
        yield ConfigIssue(("authserv_id",), text)


KIND = ChannelKind(is_user_id=is_address, user_id="an address in lowercase", issues=_issues)
