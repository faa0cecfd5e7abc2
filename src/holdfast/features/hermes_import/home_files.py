"""Files of a hermes-agent home. It can come from someone else, so no link leads out of it."""

import os
from pathlib import Path

from holdfast.tools.files.regular_files import RefusedFile, read_regular

TEXT_BYTES_MAX = 1_048_576


class OutsideHome(RefusedFile):
    """A path in the home that is, or goes through, a link that leads out of it."""


def path_in_home(home: Path, path: Path) -> Path:
    """The real path of something in the home; raises OutsideHome."""
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(home)):
        raise OutsideHome(0, "it links to something outside the imported folder", str(path))
    return Path(real)


def read_home_file(home: Path, path: Path, *, bytes_max: int = TEXT_BYTES_MAX) -> bytes:
    """All bytes of a regular file in the home; raises OSError."""
    return read_regular(path_in_home(home, path), bytes_max=bytes_max)


def read_home_text(home: Path, path: Path) -> str:
    """The text of a file in the home, with or without a byte order mark; raises OSError or ValueError."""
    return read_home_file(home, path).decode("utf-8-sig")
