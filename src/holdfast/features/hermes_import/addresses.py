"""Guesses the wire from an address, where hermes-agent's configuration doesn't name it."""

from urllib.parse import urlsplit

from holdfast.targets import Wire

_RESPONSES_HOSTS = frozenset({"api.openai.com", "api.x.ai"})
_KIMI_CODE = "https://api.kimi.com/coding"
_KIMI_CODE_KEYS = "sk-kimi-"


def place_of(base_url: str, key: str) -> tuple[str, Wire | None]:
    """The address in Holdfast's form, and the wire if the address implies one."""
    parts = urlsplit(base_url)
    host, path = (parts.hostname or "").lower(), parts.path.rstrip("/").lower()
    if host in _RESPONSES_HOSTS:
        return base_url, "responses"
    if host == "generativelanguage.googleapis.com" and not path.endswith("/openai"):
        return f"{base_url}/openai", "chat"  # hermes-agent uses Google's own protocol there
    # One name means two services there, and the key decides which.
    if host == "api.kimi.com" or (host == "api.moonshot.ai" and key.startswith(_KIMI_CODE_KEYS)):
        return _KIMI_CODE, "anthropic"
    if path.endswith(("/anthropic", "/anthropic/v1")):
        return base_url.removesuffix("/v1"), "anthropic"
    return base_url, None
