"""Hooks: programs that check tool calls and runs, or act on them."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="hooks",
    events="events:EVENTS",
    folds="events:FOLDS",
    run="run:RUN",
    opened="hooks:open_hooks",
    frames={"terminal": "events:TERMINAL"},
    commands={"hooks": "commands:hooks_app"},
    issues={"hooks": "hooks:hook_issues"},
    doctor="actions:check_hooks",
)
