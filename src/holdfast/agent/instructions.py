"""Reads the user's and the workspace's instructions, and finds the files that a message names.

Context files of subfolders: shown with the first result of a tool that touches a file below them.
"""

import asyncio
import os
import re
from collections.abc import Iterable
from pathlib import Path

from holdfast.agent.prompt import GUIDE
from holdfast.folds.run import Run
from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.regular_files import read_regular
from holdfast.tools.files.workspace import PathRefused, Workspace, Workspaces

GUIDES = (GUIDE, "CLAUDE.md")
OWN_GUIDE = f"own {GUIDE}"
GUIDE_CHARS_MAX = 64 * 1024
MOVED = (
    "This conversation was moved to another machine. Files may differ from what you saw before, and "
    "earlier processes no longer exist. Check again before you rely on any of them."
)
_GUIDE_BYTES_MAX = 4 * GUIDE_CHARS_MAX
_NOT_SHOWN = "({} in the workspace is not shown: {})"


def own_guide(path: Path) -> dict[str, str]:
    """Read the user's own instructions for all workspaces. Blocks."""
    try:
        data = read_regular(path, bytes_max=_GUIDE_BYTES_MAX)
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {OWN_GUIDE: f"(The user's own {GUIDE} is not shown: {error.strerror}.)"}
    text = data.decode("utf-8", "replace")[:GUIDE_CHARS_MAX]
    return {OWN_GUIDE: f"From the user's own {GUIDE}:\n\n{text}"} if text.strip() else {}


def guides_of(workspace: Workspace) -> dict[str, str]:
    """Read the context files by name, without duplicates of the same text. Blocks."""
    found: dict[str, str] = {}
    for name in GUIDES:
        text = _guide(workspace, name)
        if text and text.replace(name, GUIDE) not in found.values():
            found[name] = text
    return found


def _guide(workspace: Workspace, name: str) -> str:
    """Read the guide, with the same checks as any workspace file."""
    if not os.path.lexists(f"{workspace.root}/{name}"):
        return ""
    try:
        with workspace.spot(name) as spot:
            if spot.look() is None:
                return ""
            if is_secret(f"/{spot.inside}"):
                return _NOT_SHOWN.format(name, "it leads to a file that holds secrets.")
            with os.fdopen(spot.open_file(), "rb") as file:
                data = file.read(_GUIDE_BYTES_MAX)
    except PathRefused:
        return _NOT_SHOWN.format(name, "it isn't a readable file in the workspace.")
    text = data.decode("utf-8", "replace")
    if len(text) > GUIDE_CHARS_MAX or len(data) == _GUIDE_BYTES_MAX:
        text = text[:GUIDE_CHARS_MAX] + "\n(the rest of this file is not shown)"
    return f"From {name} in the workspace:\n\n{text}" if text.strip() else ""


_NAMED = re.compile(r"(?:^|(?<=\s))@([\w./-]{1,300})")
NAMED_MAX = 20


def names_in(message: str) -> tuple[str, ...]:
    """The paths that a message names with an @."""
    if "@" not in message:
        return ()
    return tuple(dict.fromkeys(name.rstrip(".") for name in _NAMED.findall(message)))


def files_named(workspace: Workspace, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the names that are files of the workspace. Blocks."""
    found: list[str] = []
    for name in names:
        try:
            with workspace.spot(name) as spot:
                if spot.look() is not None and not is_secret(f"/{spot.inside}"):
                    found.append(name)
        except PathRefused:
            continue
    return tuple(found[:NAMED_MAX])


def named_text(names: tuple[str, ...]) -> str:
    """Describe the files named in the message for the model."""
    if not names:
        return ""
    return f"The user's message names these files of the workspace with an @: {', '.join(names)}. Read them."


SUBFOLDER_GUIDE_CHARS_MAX = 16 * 1024
_MARK = "[From {name} in the workspace, for the files below its folder:]\n"


async def subfolder_guides(workspaces: Workspaces, root: Path, paths: Iterable[str], *, run: Run) -> str:
    """Return the text of context files for these paths that the run hasn't seen yet."""
    told = [call.ended.result for call in run.tools.values() if call.ended is not None]
    found = await asyncio.to_thread(_subfolder_guides, workspaces(root), root, tuple(paths))
    marked = {_MARK.format(name=name): text for name, text in found.items()}
    texts = [mark + text for mark, text in marked.items() if not any(mark in one for one in told)]
    return "\n\n".join(texts)


def _subfolder_guides(workspace: Workspace, root: Path, paths: tuple[str, ...]) -> dict[str, str]:
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
                return file.read(SUBFOLDER_GUIDE_CHARS_MAX).decode("utf-8", "replace").strip()
    except PathRefused:
        return ""
