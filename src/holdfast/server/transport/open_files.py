"""How many files and sockets this process has open, and what to do when they run out.

The store, tools and model calls need files too. So connections get a share of the system's limit; past it,
only `/health` is answered, and past a few more, connections are closed at once.
"""

import asyncio
import logging
import os
import resource
from typing import Literal, TypeAlias

Place: TypeAlias = Literal["served", "health", "none"]

HEALTH_PLACES = 8
HEALTH_S = 1.0  # how long such a connection may take to send its request
# Fewer free files than this is a shortage; it ends at twice as many.
FREE_MIN = 16
LOOK_S = 1.0
AGAIN_S = 2  # when to try again, for those who are refused

_log = logging.getLogger(__name__)


class OpenFiles:
    """Counts connections, checks open files now and then, and warns once when they run short."""

    def __init__(self, connections_max: int = 1 << 30) -> None:
        self.connections_max = connections_max
        self.connections = 0
        self.used = 0
        self.allowed = 0
        self.is_short = False
        self._is_full = False

    def came(self) -> Place:
        """Count one more connection; returns what it gets."""
        self.connections += 1
        if self.connections <= self.connections_max:
            return "served"
        if not self._is_full:
            self._is_full = True
            _log.warning("%s", self.warning)
        return "health" if self.connections <= self.connections_max + HEALTH_PLACES else "none"

    def place(self, before: Place) -> Place:
        """Return a connection's current admission, given its initial one."""
        return "served" if before == "health" and self.connections <= self.connections_max else before

    def gone(self) -> None:
        """Count one connection less."""
        self.connections -= 1
        if self._is_full and self.connections < self.connections_max:
            self._is_full = False
            _log.info("connections are accepted again")

    @property
    def warning(self) -> str:
        """Describe the shortage and the fix; empty if there is none."""
        if self.is_short:
            return (
                f"{self.used} of {self.allowed} open files are in use (ulimit -n), so some requests fail. "
                "Raise the limit, or end some connections, runs or tools"
            )
        if self._is_full:
            return (
                f"{self.connections_max} connections are open, the maximum for the open file limit (ulimit "
                "-n). More are refused until some are closed"
            )
        return ""

    async def watch(self) -> None:
        """Check periodically, forever."""
        while True:
            self.look(await asyncio.to_thread(used_files), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            await asyncio.sleep(LOOK_S)

    def look(self, used: int, allowed: int) -> None:
        """Take note of how many files are open, and how many may be."""
        self.used, self.allowed = used, allowed
        if allowed == resource.RLIM_INFINITY:
            return
        free = allowed - used
        if not self.is_short and free < FREE_MIN:
            self.is_short = True
            _log.error("%s", self.warning)
        elif self.is_short and free >= 2 * FREE_MIN:
            self.is_short = False
            _log.info("enough files are free again: %d of %d are open", used, allowed)


def used_files() -> int:
    """How many files this process has open; all of them if none is left to count with."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))  # noqa: PTH208
        except FileNotFoundError:
            continue
        except OSError:
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0
