"""Plans and goals: a plan that the user can follow and accept, and runs that work until a goal is reached."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="plans",
    events="events:EVENTS",
    folds="folds:FOLDS",
    run="run:RUN",
    tools="run:tools",
    session_fields="shown:session_fields",
    frames={
        "terminal": "terminal:STEPS",
        "acp": "acp:UPDATES",
        "ag_ui": "shown:AG_UI",
        "mcp": "shown:MCP",
    },
)
