"""What the model is told before the conversation: instructions of the operator, workspace and caller."""

import asyncio
import os

from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.workspace import PathRefused, Workspace

GUIDE = "AGENTS.md"
GUIDE_CHARS_MAX = 64 * 1024
MOVED = (
    "This conversation was moved to another machine. The files there may differ from what was said or seen "
    "before, and processes that were started before are gone. Look again before you rely on any of them."
)
_GUIDE_BYTES_MAX = 4 * GUIDE_CHARS_MAX
_NOT_SHOWN = f"({GUIDE} in the workspace is not shown: {{}})"


async def instructions_for(workspace: Workspace, *said: str) -> str:
    """All instructions in order; the workspace's AGENTS.md comes after the operator's."""
    operator, *rest = said
    guide = await asyncio.to_thread(_guide, workspace)
    return "\n\n".join(text for text in (operator, guide, *rest) if text.strip())


def _guide(workspace: Workspace) -> str:
    """The guide, with the same checks as any workspace file, because nobody asked for it."""
    try:
        with workspace.spot(GUIDE) as spot:
            if spot.look() is None:
                return ""
            if is_secret(f"/{spot.inside}"):
                return _NOT_SHOWN.format("it leads to a file that holds secrets.")
            with os.fdopen(spot.open_file(), "rb") as file:
                data = file.read(_GUIDE_BYTES_MAX)
    except PathRefused:
        if not os.path.lexists(workspace.root / GUIDE):
            return ""  # the workspace itself is gone
        return _NOT_SHOWN.format("it isn't a readable file in the workspace.")
    text = data.decode("utf-8", "replace")
    if len(text) > GUIDE_CHARS_MAX or len(data) == _GUIDE_BYTES_MAX:
        text = text[:GUIDE_CHARS_MAX] + "\n(the rest of this file is not shown)"
    return f"From {GUIDE} in the workspace:\n\n{text}" if text.strip() else ""
