"""The path of a workspace: resolved when someone chooses the folder, and the same folder from then on."""

import errno
import os
from pathlib import Path


class WorkspaceMoved(OSError):
    """The path of an accepted workspace leads through a link now, so it may be another folder."""

    def __init__(self, workspace: Path) -> None:
        self.text = (
            f"The workspace {workspace} isn't the folder that was chosen any more: its path leads through a "
            "link now. Nothing was done there."
        )
        super().__init__(errno.ESTALE, "its path leads through a link now")

    def __str__(self) -> str:
        return self.text


def unmoved(workspace: Path) -> str:
    """The workspace's path, if it still leads to the folder itself; raises WorkspaceMoved. Blocks.

    Whoever chooses a workspace gets its real path recorded. A link in that path was made afterwards.
    """
    path = os.path.abspath(workspace)  # noqa: PTH100  # `..` goes lexically: links are what is looked for
    if os.path.realpath(path) != path:
        raise WorkspaceMoved(workspace)
    return path


def is_within(path: str, root: str) -> bool:
    """Whether a path is the directory or is below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def is_repository_file(path: str) -> bool:
    """Whether a path is one of git's own files, which say what programs git runs."""
    return ".git" in path.lower().split("/")
