"""Binds the endpoints of keys and signed-in browsers."""

from collections.abc import Mapping

from holdfast.server.access.key_routes import KeyRoutes
from holdfast.server.access.signing_in import SignInRoutes
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    browsers, keys = SignInRoutes(parts.deps), KeyRoutes(parts.deps)
    return {
        "browsers.sign_in": browsers.sign_in,
        "browsers.sign_out": browsers.sign_out,
        "browsers.link": browsers.link,
        "browsers.ticket": browsers.ticket,
        "keys.list": keys.list,
        "keys.add": keys.add,
        "keys.revoke": keys.revoke,
    }
