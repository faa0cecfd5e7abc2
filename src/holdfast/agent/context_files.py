"""Context files of subfolders: shown with the first result of a tool that touches a file below them."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.folds.run import Run
from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.workspace import PathRefused, Workspace, Workspaces

GUIDES = ("AGENTS.md", "CLAUDE.md")
CHARS_MAX = 16 * 1024
_MARK = "[From {name} in the workspace, for the files below its folder:]\n"


async def subfolder_guides(workspaces: Workspaces, root: Path, paths: Iterable[str], *, run: Run) -> str:
    """Return the text of context files for these paths that the run hasn't seen yet."""
    told = [call.ended.result for call in run.tools.values() if call.ended is not None]
    found = await asyncio.to_thread(_guides, workspaces(root), root, tuple(paths))
    marked = {_MARK.format(name=name): text for name, text in found.items()}
    texts = [mark + text for mark, text in marked.items() if not any(mark in one for one in told)]
    return "\n\n".join(texts)


def _guides(workspace: Workspace, root: Path, paths: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in dict.fromkeys(folder for path in paths for folder in _folders(path, root)):
        for guide in GUIDES:
            name = f"{folder}/{guide}"
            text = _read(workspace, name)
            if text and text not in found.values():
                found[name] = text
    return found


def _folders(path: str, root: Path) -> list[str]:
    """The folders from below the workspace down to the file's own."""
    inside = os.path.relpath(os.path.dirname(os.path.join(root, path)), root)  # noqa: PTH118, PTH120  # no look at files
    if inside.startswith("..") or inside == ".":
        return []
    parts = Path(inside).parts
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _read(workspace: Workspace, name: str) -> str:
    """The file's text, with the same checks as any workspace file; empty if there is none."""
    try:
        with workspace.spot(name) as spot:
            if spot.look() is None or is_secret(f"/{spot.inside}"):
                return ""
            with os.fdopen(spot.open_file(), "rb") as file:
                return file.read(CHARS_MAX).decode("utf-8", "replace").strip()
    except PathRefused:
        return ""
