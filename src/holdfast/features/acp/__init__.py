"""The agent of an editor, over the Agent Client Protocol."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="acp",
    requires=("mcp_client",),  # editors supply MCP servers
    commands={"acp": "commands:acp"},
)
