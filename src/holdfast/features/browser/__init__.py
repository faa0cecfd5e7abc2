"""A browser for agents: a Playwright MCP server in the sandbox, one for each run that uses it."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="browser",
    requires=("mcp_client",),
    run="run:RUN",
    session_tools="tools:open_browsers",
    needs="browser.enabled",
    doctor="doctor:check_browser",
)
