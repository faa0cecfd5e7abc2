"""Checks the format of texts: URLs, hosts, origins, keys, headers."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.config.fields import TextFormat

PORT_MAX = 65_535
NAME_CHARS_MAX = 256
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MOUNT_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
_VARIABLE_NAME = re.compile(r"[^=\0]+")
DATABASE_SCHEMES = ("postgresql://", "postgres://")
LOOPBACK_NAMES = ("localhost", "localhost.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES


def format_error(meaning: TextFormat, text: str) -> str:
    """Why a text doesn't have this format, as the predicate of a sentence; empty if it does."""
    check = CHECKS.get(meaning)
    return check(text) if check is not None else ""


def name_error(meaning: TextFormat, name: str) -> str:
    """Why this can't be the name of a header or a variable; empty if it can."""
    if meaning == "header" and not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header"
    if meaning == "variable" and not _VARIABLE_NAME.fullmatch(name):
        return "is not the name of an environment variable"
    return ""


def _url(text: str) -> str:
    if "?" in text or "#" in text:
        return "must not contain ? or #"
    return _url_with_query(text)


def _url_with_query(text: str) -> str:
    url = _split(text)
    if url is None or url.scheme not in {"http", "https"} or not url.hostname:
        return "must be a URL that starts with http:// or https:// and names a host"
    if url.username is not None or url.password is not None:
        return "must not contain a user or password; put secrets in api_key or headers"
    return ""


def _proxy(text: str) -> str:
    url = _split(text)
    if text and (url is None or url.scheme not in {"http", "https"} or not url.hostname):
        return "must be a URL that starts with http:// or https:// and names a host"
    if url is not None and (url.path.strip("/") or url.query or url.fragment):
        return "must end with the host and port; in a password, write @, / and # as %40, %2F and %23"
    return ""


def _url_or_empty(text: str) -> str:
    return _url(text) if text else ""


def _database(text: str) -> str:
    # Several hosts may follow one another, which no URL allows, so only the beginning is checked here.
    if text and not text.startswith(DATABASE_SCHEMES):
        return "must be a URL that starts with postgresql://"
    return "" if text.isprintable() and " " not in text else "must not contain spaces or line breaks"


def shown_database(url: str) -> str:
    """The URL of a database for people: without the password and without options."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0]
    credentials, at, host = place.rpartition("@")
    return f"{scheme}://{credentials.partition(':')[0]}{at}{host}"


def database_secrets(url: str) -> tuple[str, ...]:
    """The password in the URL of a database, as it is written there and as it is."""
    rest = url.partition("://")[2]
    place, _, query = rest.partition("?")
    written = [place.rpartition("@")[0].partition(":")[2]]
    written += [pair.partition("=")[2] for pair in query.split("&") if pair.startswith("password=")]
    return tuple(dict.fromkeys(one for text in written if text for one in (text, unquote(text))))


def _split(text: str) -> SplitResult | None:
    """The parts of a URL; None if it isn't one."""
    if not text.isprintable() or " " in text:
        return None
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    return None if port is not None and not 0 < port <= PORT_MAX else url


def _host(text: str) -> str:
    if not _is_host(text):
        return "must be an address or a host name, without a port or brackets (0.0.0.0 means every address)"
    return ""


def _host_name(text: str) -> str:
    return "" if not text or _is_host(text.strip("[]")) else "must be a host name without a port"


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def _origin(text: str) -> str:
    if text == "*":
        return ""
    url = _split(text)
    # Pages of desktop apps and extensions have schemes of their own: tauri://localhost.
    whole = url is not None and text.lower() == f"{url.scheme}://{url.netloc.lower()}"
    if url is None or not whole or not url.hostname or "@" in text:
        return "must be an origin such as https://chat.example.com, without a path or trailing slash"
    return "" if text == text.lower() else "must be in lower case, as browsers send it"


def _name(text: str) -> str:
    if not text.isprintable() or text != text.strip() or len(text) > NAME_CHARS_MAX:
        return f"must be at most {NAME_CHARS_MAX} printable characters without leading or trailing spaces"
    return ""


def _key(text: str) -> str:
    if not (text.isascii() and text.isprintable()) or " " in text:
        return "must be printable ASCII characters without spaces"
    return ""


def _header(text: str) -> str:
    return "" if text.isprintable() else "must not contain line breaks or control characters"


def _no_nul(text: str) -> str:
    return "must not contain a NUL character" if "\0" in text else ""


def _mount_path(text: str) -> str:
    if not text or (_MOUNT_PATH.fullmatch(text) and not any(one in {".", ".."} for one in text.split("/"))):
        return ""
    return "must be a path such as /agents, of letters, digits and . _ ~ -, without a slash at the end"


def _address_or_network(text: str) -> str:
    if text == "unix":
        return ""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return "must be an address such as 10.0.0.7, a network such as 10.0.0.0/8, or unix"
    return ""


CHECKS: Mapping[TextFormat, Callable[[str], str]] = {
    "address or network": _address_or_network,
    "database": _database,
    "header": _header,
    "host": _host,
    "host name": _host_name,
    "key": _key,
    "mount path": _mount_path,
    "name": _name,
    "origin": _origin,
    "path": _no_nul,
    "proxy": _proxy,
    "url": _url,
    "url or empty": _url_or_empty,
    "url with query": _url_with_query,
    "variable": _no_nul,
}
