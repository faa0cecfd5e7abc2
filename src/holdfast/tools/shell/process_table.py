"""The process table as Linux shows it in /proc; where there is none, the table is empty."""

import os
import re
import sys
from collections.abc import Iterable

from msgspec import Struct

ON_LINUX = sys.platform == "linux"
ENVIRON_BYTES_MAX = 2 * 1024 * 1024
_READ_BYTES = 64 * 1024
_TAG = re.compile(rb"^Max msgqueue size\s+(\d+)", re.MULTILINE)


class ProcessEntry(Struct, frozen=True, kw_only=True):
    """One entry of the process table; pid and start time together are unique."""

    pid: int
    born_ticks: int
    parent: int
    group: int
    session: int
    state: str
    name: str

    @property
    def is_dead(self) -> bool:
        """Whether the process is dead and only its entry is left."""
        return self.state in {"Z", "X"}

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def table() -> list[ProcessEntry]:
    """Every process."""
    if not ON_LINUX:
        return []
    names = os.listdir("/proc")  # noqa: PTH208 - names are wanted, thousands of them
    rows = (look(int(name)) for name in names if name.isdecimal())
    return [row for row in rows if row is not None]


def look(pid: int) -> ProcessEntry | None:
    """One process, or None when it is gone."""
    data = _contents(f"/proc/{pid}/stat", bytes_max=_READ_BYTES)
    # The name is in parentheses and may hold any byte, so the last parenthesis is the one that counts.
    front, _, back = data.rpartition(b")")
    fields = back.split()
    if not front or not fields:
        return None
    return ProcessEntry(
        pid=pid,
        born_ticks=int(fields[19]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0].decode("ascii"),
        name=front.partition(b"(")[2].decode("utf-8", "replace"),
    )


def environ_of(pid: int) -> bytes:
    """The environment that the process was started with; empty if it is gone or not ours to read."""
    return _contents(f"/proc/{pid}/environ", bytes_max=ENVIRON_BYTES_MAX)


def writes_to(pid: int, pipe_inode: int) -> bool:
    """Whether its standard output or error is this pipe."""
    wanted = f"pipe:[{pipe_inode}]"
    return any(_link(f"/proc/{pid}/fd/{number}") == wanted for number in (1, 2))


def tag_of(pid: int) -> int:
    """The process's tag, or another number if it has none; 0 if it is gone."""
    return tag_in_limits(_contents(f"/proc/{pid}/limits", bytes_max=_READ_BYTES))


def tag_in_limits(limits: bytes) -> int:
    """The number in the limits of a process as /proc shows them; 0 if there is none."""
    found = _TAG.search(limits)
    return int(found[1]) if found else 0


def with_descendants(rows: Iterable[ProcessEntry], roots: set[int]) -> set[int]:
    """The pids and those of all their descendants."""
    children: dict[int, list[int]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def _contents(path: str, *, bytes_max: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # gone, or another user's: no process of ours
    parts: list[bytes] = []
    total = 0
    try:
        while total < bytes_max and (part := os.read(descriptor, _READ_BYTES)):
            parts.append(part)
            total += len(part)
    except OSError:
        return b""  # it died while we read
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a text, not a path
    except OSError:
        return ""
