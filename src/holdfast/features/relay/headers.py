"""The headers that pass through the relay in each direction; all others are dropped."""

from collections.abc import Iterable, Mapping

# The provider needs these to know the dialect, or uses them to find its prompt cache.
SENT_UP = frozenset(
    {
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "session-id",
        "session_id",
        "thread-id",
        "conversation_id",
        "originator",
        "user-agent",
        "x-client-request-id",
    }
)
SENT_UP_PREFIXES = (b"x-codex-", b"x-stainless-")
# However the configuration is written, these never leave.
NEVER_UP = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "cookie",
        "host",
        "forwarded",
        "via",
        "chatgpt-account-id",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-connection",
        "content-length",
        "content-encoding",
        "content-type",
        "accept-encoding",
        "expect",
    }
)
NEVER_UP_PREFIXES = ("x-forwarded-", "x-holdfast-", "x-hermes-", "sec-", "proxy-")
SENT_BACK = frozenset(
    {
        "content-type",
        "request-id",
        "x-request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "openai-processing-ms",
        "openai-version",
        "openai-model",
    }
)
SENT_BACK_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "x-codex-")


class HeadersUp:
    """The client headers for the provider; `also` names further ones."""

    def __init__(self, also: Iterable[str] = ()) -> None:
        wanted = SENT_UP | {name.lower() for name in also}
        never = NEVER_UP | {name for name in wanted if name.startswith(NEVER_UP_PREFIXES)}
        self._wanted = frozenset(name.encode() for name in wanted - never)

    def of(self, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
        """Those of one request; a server gives all names in lower case."""
        return {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in self._wanted or name.startswith(SENT_UP_PREFIXES)
        }


def headers_back(headers: Mapping[str, str]) -> dict[str, str]:
    """The provider's headers that the client gets; names are in lower case."""
    return {
        name: value
        for name, value in headers.items()
        if name in SENT_BACK or name.startswith(SENT_BACK_PREFIXES)
    }
