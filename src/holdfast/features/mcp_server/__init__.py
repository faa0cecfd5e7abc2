"""The agent as a Model Context Protocol server, over HTTP and on standard input and output."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="mcp_server",
    operations="bodies:OPERATIONS",
    routes={"mcp": "agent_service:AgentRoutes"},
    commands={"mcp": "commands:mcp"},
)
