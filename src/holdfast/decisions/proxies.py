"""A proxy in front of a target: where it is, and how we authenticate to it."""

import base64
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

HIDDEN = "…"


class Proxy(msgspec.Struct, frozen=True):
    """The parts of a proxy's URL; `url` has no user and no password, `place` is host and port."""

    url: str
    place: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Keep the password out of logs and tracebacks."""
        return f"Proxy({self.url!r})"

    @property
    def authorization(self) -> str:
        """The Proxy-Authorization value; empty without credentials."""
        if not (self.user or self.password):
            return ""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def proxy_at(url: str) -> Proxy | None:
    """The proxy in a URL that has been checked; None if there is none."""
    if not url:
        return None
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    place = _place(parts)
    return Proxy(
        url=f"{parts.scheme}://{place}",
        place=place,
        host=parts.hostname or "",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def shown_proxy(url: str) -> str:
    """The URL for people, without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{HIDDEN}@{_place(parts)}" if "@" in parts.netloc else url


def proxy_secrets(url: str) -> tuple[str, ...]:
    """The secrets in a proxy's URL: the password, in every form in which it may appear."""
    proxy = proxy_at(url)
    if proxy is None or not proxy.password:
        return ()
    written = urlsplit(url).password or ""
    encoded = proxy.authorization.removeprefix("Basic ")
    return tuple(dict.fromkeys((proxy.password, written, encoded)))


def _place(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]
