"""What other programs do to the files of a store while it is in use.

What reads or writes the database is a program of its own here, too: a process that closes the file lets go of
all the locks that it has on it.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

JUNK = b"this is somebody else's file\n" * 400

Fault = Callable[[Path, Path], None]  # of a file, and of an older copy of it


def unlink(file: Path, older: Path) -> None:
    """Remove it."""
    del older
    file.unlink(missing_ok=True)


def empty(file: Path, older: Path) -> None:
    """Cut it to nothing, where it is."""
    del older
    if file.exists():
        os.truncate(file, 0)


def cut(file: Path, older: Path) -> None:
    """Cut it in the middle, where it is."""
    del older
    if file.exists():
        os.truncate(file, file.stat().st_size // 2 + 7)


def replace(file: Path, older: Path) -> None:
    """Put something else in its place."""
    del older
    other = file.with_name(f"{file.name}.other")
    other.write_bytes(JUNK)
    other.replace(file)


def put_back(file: Path, older: Path) -> None:
    """Put an older copy in its place, as a file of its own."""
    other = file.with_name(f"{file.name}.other")
    other.write_bytes(older.read_bytes() if older.exists() else b"")
    other.replace(file)


def write_back(file: Path, older: Path) -> None:
    """Write an older copy into it, as `cp` does."""
    subprocess.run(["/bin/cp", str(older if older.exists() else os.devnull), str(file)], check=True)


FAULTS: dict[str, Fault] = {
    fault.__name__: fault for fault in (unlink, empty, cut, replace, put_back, write_back)
}


def copy_of(folder: Path, into: Path) -> None:
    """Keep the files of a store, its log and its lock as they are now; other files come and go meanwhile."""
    into.mkdir()
    files = [
        file for file in folder.iterdir() if file.suffix.startswith((".db", ".log")) or file.name == "lock"
    ]
    subprocess.run(["/bin/cp", *files, into], check=True)
