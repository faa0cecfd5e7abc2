"""Routes of hermes-agent's API server that no other client uses: session chat, toolsets, models and goals."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="hermes",
    operations="bodies:OPERATIONS",
    routes={"chat": "chat:ChatRoutes", "hermes": "models:ModelRoutes", "goals": "session_goals:GoalRoutes"},
    health="readiness:health",
)
