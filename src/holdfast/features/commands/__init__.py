"""Commands that users write: Markdown files that a slash command turns into a message."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="commands",
    operations="bodies:OPERATIONS",
    routes={"commands": "routes:CommandRoutes"},
    user_commands="chats:USER_COMMANDS",
    commands={"commands": "commands:commands_app"},
    doctor="actions:check_commands",
)
