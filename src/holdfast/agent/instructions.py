"""What the model is told before the conversation: the operator's words, the workspace's, the caller's."""

import asyncio
from pathlib import Path

GUIDE = "AGENTS.md"
GUIDE_CHARS_MAX = 64 * 1024


async def instructions_for(workspace: Path, *said: str) -> str:
    """All instructions in order, with the workspace's AGENTS.md after the operator's."""
    operator, *rest = said
    guide = await asyncio.to_thread(_guide, workspace)
    return "\n\n".join(text for text in (operator, guide, *rest) if text.strip())


def _guide(workspace: Path) -> str:
    try:
        with (workspace / GUIDE).open(encoding="utf-8", errors="replace") as file:
            text = file.read(GUIDE_CHARS_MAX + 1)
    except OSError:
        return ""
    if len(text) > GUIDE_CHARS_MAX:
        text = text[:GUIDE_CHARS_MAX] + "\n(the rest of this file is not shown)"
    return f"From {GUIDE} in the workspace:\n\n{text}" if text.strip() else ""
