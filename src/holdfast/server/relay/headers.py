"""Which headers pass through the relay, in each direction; all others stay here."""

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
SENT_UP_PREFIXES = ("x-codex-", "x-stainless-")
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


def headers_up(headers: Iterable[tuple[str, str]], also: Iterable[str] = ()) -> dict[str, str]:
    """The client's headers that the provider gets; `also` names further ones."""
    wanted = SENT_UP | {name.lower() for name in also}
    return {
        name: value
        for name, value in ((name.lower(), value) for name, value in headers)
        if (name in wanted or name.startswith(SENT_UP_PREFIXES))
        and name not in NEVER_UP
        and not name.startswith(NEVER_UP_PREFIXES)
    }


def headers_back(headers: Mapping[str, str]) -> dict[str, str]:
    """The provider's headers that the client gets; names are in lower case."""
    return {
        name: value
        for name, value in headers.items()
        if name in SENT_BACK or name.startswith(SENT_BACK_PREFIXES)
    }
