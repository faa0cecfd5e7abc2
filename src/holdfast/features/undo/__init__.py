"""Undo: snapshots around the changes of runs, and how to restore the files and the conversation."""

from holdfast.interfaces.feature import Feature, SlashCommand

FEATURE = Feature(
    name="undo",
    events="events:EVENTS",
    folds="folds:FOLDS",
    run="run:RUN",
    opened="snapshots:open_snapshots",
    can_undo="snapshots:Snapshots.covers",
    recover="restores:recover",
    upkeep="snapshots:upkeep",
    operations="operations:OPERATIONS",
    routes={"changes": "routes:ChangeRoutes"},
    commands={"diff": "commands:diff", "undo": "commands:undo", "redo": "commands:redo"},
    terminal_commands={
        "/diff": SlashCommand("show the last run's file changes", "terminal_chat:diff"),
        "/undo": SlashCommand(
            "undo the last run's file changes and messages; force or keep-both on conflicts",
            "terminal_chat:undo",
        ),
        "/redo": SlashCommand("reverse the last undo", "terminal_chat:redo"),
    },
    messenger_commands={"undo": SlashCommand("Undo the last run that changed files", "messenger:undo")},
)
