"""Runs over AG-UI, the protocol of chat front ends such as CopilotKit."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="ag_ui", operations="bodies:OPERATIONS", routes={"ag_ui": "routes:AgUiRoutes"})
