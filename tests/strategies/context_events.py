"""Events about what a model is shown besides the conversation, without their run."""

from typing import Any

from holdfast import events as e

CONTEXT: tuple[tuple[type[e.Event], dict[str, Any]], ...] = (
    (e.ContextRead, {"sources": ("the file AGENTS.md",)}),
    (e.ContextSet, {"reason": "first", "instructions": "Be brief.", "parts": {"memory": "b"}}),
    (e.ContextNoted, {"text": "a note", "parts": {"memory": ""}}),
)
