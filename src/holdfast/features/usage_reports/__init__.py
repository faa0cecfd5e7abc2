"""Usage reports: tokens, cost and budgets by day, target, session or API key."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="usage_reports",
    operations="bodies:OPERATIONS",
    routes={"usage": "reports:UsageRoutes"},
    commands={"usage": "commands:usage"},
)
