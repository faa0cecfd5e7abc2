"""Delegation: tools with which an agent gives tasks to sub-agents, in separate sessions."""

from holdfast.interfaces.feature import Feature, SlashCommand

FEATURE = Feature(
    name="delegation",
    run="run:RUN",
    tools="tools:tools",
    opened="agents:open_library",
    named_agent="agents:named_agent",
    agent_names="agents:agent_names",
    commands={"agents": "commands:agents_app"},
    doctor="doctor:check_agents",
    terminal_commands={
        "/agents": SlashCommand(
            "show named agents and the session's sub-agents; /sessions ID opens one", "terminal_chat:agents"
        )
    },
)
