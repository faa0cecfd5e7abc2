"""Tools of MCP servers: configured ones, and those that a client supplies for one session."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="mcp_client",
    operations="bodies:OPERATIONS",
    routes={"mcp_servers": "routes:ClientServerRoutes"},
    session_tools="session_tools:open_session_tools",
    commands={"mcp-sign-in": "commands:sign_in"},
    doctor="doctor:check_servers",
)
