"""Binds the endpoints of chat platforms."""

from collections.abc import Mapping

from holdfast.server.channels.deliveries import ChannelDeliveryRoutes
from holdfast.server.channels.routes import ChannelRoutes
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    channels = ChannelRoutes(deps)
    return {
        "channels.list": channels.list,
        "channels.pair": channels.pair,
        "channels.allow": channels.allow,
        "channels.revoke": channels.revoke,
        "channels.test": channels.test,
        "channels.log": channels.log,
        "channels.deliver": ChannelDeliveryRoutes(deps).deliver,
    }
