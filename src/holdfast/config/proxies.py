"""The proxies that the environment names, as other programs read it: HTTPS_PROXY, NO_PROXY and their kin."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import SplitResult, urlsplit

from holdfast.config.environment import Layers
from holdfast.config.sources import SettingSource
from holdfast.config.validation import Tree
from holdfast.config.value_formats import is_loopback

ALL, NO = "all_proxy", "no_proxy"
DEFAULT_PORTS = {"http": 80, "https": 443}
CGI = "REQUEST_METHOD"
UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104  # nothing listens there
PROXY_VARIABLES = {
    "HTTPS_PROXY": "The proxy to targets at https, where their `proxy` is not given.",
    "HTTP_PROXY": "The proxy to targets at http, where their `proxy` is not given.",
    "ALL_PROXY": "The proxy where the one before is not set.",
    "NO_PROXY": "Hosts, domains, addresses and networks to reach without a proxy, with commas; * is all.",
}


@dataclass(frozen=True, slots=True)
class EnvironmentProxy:
    """A proxy that a variable names; only one that speaks HTTP is of use."""

    variable: str
    url: str

    @property
    def is_usable(self) -> bool:
        """Whether it is no SOCKS proxy."""
        return not self.url.lower().startswith("socks")


def put_proxies(layers: Layers, environ: Mapping[str, str]) -> list[str]:
    """Lay a proxy for every target that says nothing of one; gives warnings about those that are no use."""
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
        f"{variable} names a SOCKS proxy, which cannot be used: models are called without it. "
        'Name an HTTP proxy, or set proxy = "" for the target'
        for variable in unusable
    ]


def proxy_for(base_url: str, environ: Mapping[str, str]) -> EnvironmentProxy | None:
    """The proxy on the way to a URL; None for this machine and for what NO_PROXY excepts."""
    try:
        url = urlsplit(base_url)
        port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    except ValueError:
        return None  # the check of the URL says what is wrong with it
    host = (url.hostname or "").rstrip(".")
    if not host or _is_here(host) or _excepted(host, port, environ=environ):
        return None
    return _named(url, environ)


def _is_here(host: str) -> bool:
    """Whether it is this machine, also by the address that stands for all of its own."""
    return is_loopback(host) or host.endswith(".localhost") or host in UNSPECIFIED


def _named(url: SplitResult, environ: Mapping[str, str]) -> EnvironmentProxy | None:
    for name in (f"{url.scheme}_proxy", ALL):
        variable, text = _variable(name, environ)
        # A web server hands the header "Proxy:" of any client to its scripts under this name.
        if text and not (variable == "HTTP_PROXY" and CGI in environ):
            return EnvironmentProxy(variable, text if "://" in text else f"http://{text}")
    return None


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """A variable and its value; in small letters it counts first, also if it is empty."""
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
    """The targets that are tables, as the check has yet to find of all of them."""
    targets = tree.get("targets")
    for index, target in enumerate(cast("list[object]", targets) if isinstance(targets, list) else ()):
        if isinstance(target, dict):
            yield index, cast("Tree", target)
