"""Channels: they carry messages between chat platforms and sessions."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="channels",
    events="events:EVENTS",
    operations="http.operations:OPERATIONS",
    routes={"channels": "http.routes:ChannelRoutes"},
    issues={"channels": "kinds:channel_issues"},
    configured="configured:configured_channels",
    sessions_in_use="http.folds:sessions_in_use",
    work="configured:run_channels",
    health="http.routes:health",
    commands={"channels": "cli.commands:channels_app", "send": "cli.commands:send"},
    doctor="cli.doctor:check_channels",
)
