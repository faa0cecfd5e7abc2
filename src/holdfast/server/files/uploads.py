"""Puts an uploaded file into a workspace: whole or not at all, and over another one only if told to."""

import os

from holdfast.api.files import FileStored
from holdfast.policy.autorun_files import is_autorun
from holdfast.server.files.places import insist_on_file, normal_path, public_spot, shown
from holdfast.tools.files.contents import Stamp, replace_whole
from holdfast.tools.files.workspace import PathRefused, Workspace


class AlreadyThere(PathRefused):
    """There is a file of this name."""


class ProtectedRefused(PathRefused):
    """Other programs would load or run the file automatically."""


def store_file(workspace: Workspace, path: str, data: bytes, *, overwrite: bool) -> FileStored:
    """Write the file; it is on disk when this returns. Raises PathRefused. Blocks."""
    path = normal_path(path)
    if not path or path.rpartition("/")[2] == "..":
        raise PathRefused("Enter a file name.")
    with public_spot(workspace, path) as spot:
        if is_autorun(path) or is_autorun(spot.inside):
            raise ProtectedRefused(
                f"{shown(path)} is protected: other programs load or run it automatically. Copy it there "
                "yourself."
            )
        was = None
        if spot.look() is not None:
            found = insist_on_file(spot, path)
            if not overwrite:
                raise AlreadyThere(f"{shown(path)} already exists.")
            was = Stamp(found.st_mtime_ns, found.st_size, "")
        replace_whole(spot, data, was=was)
        os.fsync(spot.folder_fd)
    return FileStored(path=path, bytes=len(data), replaced=was is not None)
