"""Proxies from the environment, read as other programs do: HTTPS_PROXY, NO_PROXY and so on."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from holdfast.config.environment import Layers
from holdfast.config.sources import SettingSource
from holdfast.config.validation import Tree
from holdfast.config.value_formats import is_loopback

ALL, NO = "all_proxy", "no_proxy"
DEFAULT_PORTS = {"http": 80, "https": 443}
CGI = "REQUEST_METHOD"
UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104  # nothing listens there
PROXY_VARIABLES = {
    "HTTPS_PROXY": "Proxy for https targets that don't set `proxy`.",
    "HTTP_PROXY": "Proxy for http targets that don't set `proxy`.",
    "ALL_PROXY": "Proxy to use if the matching variable above isn't set.",
    "NO_PROXY": "Hosts, domains and networks to reach without a proxy, separated by commas; `*` means all.",
}


class EnvironmentProxy(Struct, frozen=True):
    """A proxy that a variable names; only HTTP proxies can be used."""

    variable: str
    url: str

    @property
    def is_usable(self) -> bool:
        """Whether it is an HTTP proxy."""
        return not self.url.lower().startswith("socks")


def put_proxies(layers: Layers, environ: Mapping[str, str]) -> list[str]:
    """Set a proxy for every target that doesn't; returns warnings about proxies that can't be used."""
    unusable: dict[str, None] = {}
    for index, target in _tables(layers.tree):
        base_url = target.get("base_url")
        named = proxy_for(base_url, environ) if isinstance(base_url, str) and "proxy" not in target else None
        if named is not None and named.is_usable:
            target["proxy"] = named.url
            layers.sources[("targets", index, "proxy")] = SettingSource("environment", named.variable)
        elif named is not None:
            unusable[named.variable] = None
    return [
        f"{variable} is a SOCKS proxy, which Holdfast doesn't support, so models are called without it. "
        'Use an HTTP proxy, or set proxy = "" for the target'
        for variable in unusable
    ]


def proxy_for(base_url: str, environ: Mapping[str, str]) -> EnvironmentProxy | None:
    """The proxy for a URL; None for this machine and for hosts in NO_PROXY."""
    try:
        url = urlsplit(base_url)
        port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    except ValueError:
        return None  # the check of the URL reports the error
    host = (url.hostname or "").rstrip(".")
    if not host or _is_here(host) or _excepted(host, port, environ=environ):
        return None
    return _named(url, environ)


def _is_here(host: str) -> bool:
    """Whether it is this machine; 0.0.0.0 counts too."""
    return is_loopback(host) or host.endswith(".localhost") or host in UNSPECIFIED


def _named(url: SplitResult, environ: Mapping[str, str]) -> EnvironmentProxy | None:
    for name in (f"{url.scheme}_proxy", ALL):
        variable, text = _variable(name, environ)
        # A web server hands the header "Proxy:" of any client to its scripts under this name.
        if text and not (variable == "HTTP_PROXY" and CGI in environ):
            return EnvironmentProxy(variable, text if "://" in text else f"http://{text}")
    return None


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """A variable and its value; the lower-case name wins, even if it is empty."""
    variable = name if name in environ else name.upper()
    return variable, environ.get(variable, "").strip()


def _excepted(host: str, port: int, *, environ: Mapping[str, str]) -> bool:
    _, text = _variable(NO, environ)
    return any(_fits(entry, host, port=port) for entry in text.lower().replace(",", " ").split())


def _fits(entry: str, host: str, *, port: int) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal() and "]" not in entry_port:
        if int(entry_port) != port:
            return False
        entry = name.strip("[]")
    domain = entry.removeprefix("*").strip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _tables(tree: Tree) -> Iterator[tuple[int, Tree]]:
    """The targets that are tables; the check reports the others."""
    targets = tree.get("targets")
    for index, target in enumerate(cast("list[object]", targets) if isinstance(targets, list) else ()):
        if isinstance(target, dict):
            yield index, cast("Tree", target)
