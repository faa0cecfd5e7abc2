"""Writing files atomically: after a crash, a file is complete or unchanged."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; until it is on disk, the name keeps its old file."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a directory, so that the names in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
