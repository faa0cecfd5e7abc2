"""Memory: what agents remember between conversations, with proposals, history and rollback."""

from holdfast.interfaces.feature import Feature, SlashCommand

FEATURE = Feature(
    name="memory",
    events="events:EVENTS",
    run="run:RUN",
    opened="memories:open_memory",
    tools="run:tools",
    operations="bodies:OPERATIONS",
    routes={"memory": "routes:MemoryRoutes"},
    commands={"memory": "commands:memory_app"},
    terminal_commands={
        "/memory": SlashCommand(
            "show memories and proposals; accept N, reject N, or all", "terminal_chat:memory"
        ),
        "#": SlashCommand(
            "TEXT: propose a memory about this workspace; ##TEXT: about you", "terminal_chat:propose"
        ),
    },
    terminal_proposals="terminal_chat:show_proposals",
)
