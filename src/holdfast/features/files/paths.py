"""Checks the paths that the page can open: nothing outside the workspace, secret or Holdfast's own."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePosixPath

from holdfast.policy.secret_names import is_secret
from holdfast.safe_text import shown_path
from holdfast.tools.files.workspace import PathMissing, PathRefused, Spot, Workspace

NOT_SHOWN = "This file may contain secrets, so it isn't shown here."
NO_FILE = "This isn't a regular file."
NAME_NOT_TEXT = "The name isn't valid UTF-8, so it can't be opened here."


class SecretRefused(PathRefused):
    """The path may hold secrets."""


def normal_path(path: str) -> str:
    """A path in the workspace without empty parts and single dots; the workspace itself is empty."""
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def parent_of(path: str) -> str:
    """The folder of a path."""
    return path.rpartition("/")[0]


def joined(folder: str, name: str) -> str:
    """A name in a folder of the workspace."""
    return f"{folder}/{name}" if folder else name


def is_secret_path(real_root: str, inside: str) -> bool:
    """Whether a path in the workspace, with links resolved, may hold secrets."""
    return is_secret(str(PurePosixPath(real_root, inside)))


@contextmanager
def public_spot(workspace: Workspace, path: str) -> Generator[Spot]:
    """Where a path leads; raises PathRefused if that is outside or may hold secrets. Blocks."""
    real_root = os.path.realpath(workspace.root)
    with workspace.spot(path) as spot:
        if is_secret_path(real_root, path) or is_secret_path(real_root, spot.inside):
            raise SecretRefused(
                f"{display_name(path)} may contain secrets, so it can't be read or written here."
            )
        yield spot


def insist_on_file(spot: Spot, path: str) -> os.stat_result:
    """The state of a regular file; raises PathRefused for anything else. Blocks."""
    found = spot.look()
    if found is None:
        raise PathMissing(f"{display_name(path)} doesn't exist.")
    if stat.S_ISDIR(found.st_mode):
        raise PathRefused(f"{display_name(path)} is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{display_name(path)} isn't a regular file.")
    return found


def display_name(path: str) -> str:
    """A path as an error names it."""
    return shown_path(os.fsencode(path))[:300]
