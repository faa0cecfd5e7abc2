"""Conversations of other programs: imports from Claude Code and Codex, and rescues damaged transcripts."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="transcripts",
    commands={"import": "commands:import_app", "rescue": "commands:rescue"},
)
