"""Files of a hermes-agent home. It can come from someone else, so no link leads out of it."""

import os
from pathlib import Path

from holdfast.tools.files.regular_files import Unfit, read_regular

TEXT_BYTES_MAX = 1_048_576


class LeadsOutside(Unfit):
    """A path in the home that is, or goes through, a link that leads out of it."""


def own_path(home: Path, path: Path) -> Path:
    """The real path of something in the home; raises LeadsOutside."""
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(home)):
        raise LeadsOutside(0, "it links to something outside the imported folder", str(path))
    return Path(real)


def read_own(home: Path, path: Path, *, bytes_max: int = TEXT_BYTES_MAX) -> bytes:
    """All bytes of a regular file in the home; raises OSError."""
    return read_regular(own_path(home, path), bytes_max=bytes_max)


def read_own_text(home: Path, path: Path) -> str:
    """The text of a file in the home, with or without a byte order mark; raises OSError or ValueError."""
    return read_own(home, path).decode("utf-8-sig")
