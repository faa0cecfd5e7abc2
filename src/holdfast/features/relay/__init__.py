"""The relay: model calls from other programs, forwarded to this server's targets."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="relay",
    operations="bodies:OPERATIONS",
    routes={"relay": "routes:RelayRoutes"},
    models="routes:RelayRoutes",
    metrics="metering:prometheus_metrics",
)
