"""Puts attached files into the workspace, where the agent's tools can read them; nothing is overwritten."""

import os
import re
import unicodedata
from hashlib import file_digest, sha256

from holdfast.tools.files.contents import replace_whole
from holdfast.tools.files.workspace import PathRefused, Spot, Workspace

FOLDER = "attachments"
SAME_NAME_MAX = 100
_STEM_CHARS_MAX = 60
_STEM_BYTES_MAX = 180  # a file name has at most 255
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,12}")
_KEPT_CLASSES = frozenset("LMN")  # letters, marks and numbers of any script


def save_attachment(workspace: Workspace, name: str, data: bytes) -> str:
    """Put a file into the workspace and return its path there; raises PathRefused. Blocks.

    The same file under the same name is saved once. When this returns, it survives a power cut.
    """
    is_new = _insist_on_own_folder(workspace)
    digest = sha256(data).hexdigest()
    for nth in range(1, SAME_NAME_MAX + 1):
        path = f"{FOLDER}/{safe_name(name, digest, nth=nth)}"
        with workspace.spot_with_folders(path) as spot:
            if spot.inside != path:
                raise PathRefused(f"{path} is a link.")
            if spot.look() is None:
                replace_whole(spot, data, was=None)
            elif not _has_digest(spot, digest):
                continue  # someone changed the file, and wants to keep the change
            os.fsync(spot.folder_fd)
            break
    else:
        raise PathRefused(f"{FOLDER} already has {SAME_NAME_MAX} other files of this name.")
    if is_new:
        _finish_new_folder(workspace)
    return path


def safe_name(name: str, digest: str, *, nth: int = 1) -> str:
    """A file name that is one name, says what the file is called, and starts or configures nothing."""
    base = unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1])
    stem, dot, extension = base.rpartition(".")
    suffix = f".{extension}" if stem.strip("._-") and _SUFFIX.fullmatch(dot + extension) else ""
    stem = stem if suffix else base
    kept = "".join(
        char if char in "._-" or unicodedata.category(char)[0] in _KEPT_CLASSES else "_" for char in stem
    )
    short = kept.strip("._-")[:_STEM_CHARS_MAX].encode()[:_STEM_BYTES_MAX].decode(errors="ignore")
    number = f"-{nth}" if nth > 1 else ""
    return f"{short or 'file'}-{digest[:8]}{number}{suffix}"


def _insist_on_own_folder(workspace: Workspace) -> bool:
    """Whether the folder is still to be made; raises PathRefused if it is a link."""
    with workspace.spot(FOLDER) as spot:
        if spot.inside != FOLDER:
            raise PathRefused(f"{FOLDER} is a link.")
        return spot.look() is None


def _finish_new_folder(workspace: Workspace) -> None:
    """Keep the folder out of git, and its own name on disk."""
    with workspace.spot(f"{FOLDER}/.gitignore") as spot:
        if spot.look() is None:
            replace_whole(spot, b"*\n", was=None)
    with workspace.folder(".") as root:
        os.fsync(root.fd)


def _has_digest(spot: Spot, digest: str) -> bool:
    with os.fdopen(spot.open_file(), "rb") as file:
        return file_digest(file, "sha256").hexdigest() == digest
