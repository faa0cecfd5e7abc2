"""How many files and sockets this process has open, and what to do when there is hardly room for more.

The store, tools and model calls need files too. So connections get a share of what the system allows; past it
only `/health` is answered, and past a few more a connection is closed at once.
"""

import asyncio
import logging
import os
import resource
from typing import Literal, TypeAlias

Place: TypeAlias = Literal["served", "health", "none"]

HEALTH_PLACES = 8
HEALTH_S = 1.0  # how long one of these places is kept for a request
# Fewer free than this is a shortage; it is over when there are twice as many.
FREE_MIN = 16
LOOK_S = 1.0
AGAIN_S = 2  # when to try again, for those who are refused

_log = logging.getLogger(__name__)


class OpenFiles:
    """Counts connections, looks at the rest now and then, and says once when there is too little room."""

    def __init__(self, connections_max: int = 1 << 30) -> None:
        self.connections_max = connections_max
        self.connections = 0
        self.used = 0
        self.allowed = 0
        self.is_short = False
        self._is_full = False

    def came(self) -> Place:
        """One more connection, and what it gets."""
        self.connections += 1
        if self.connections <= self.connections_max:
            return "served"
        if not self._is_full:
            self._is_full = True
            _log.warning("%s", self.warning)
        return "health" if self.connections <= self.connections_max + HEALTH_PLACES else "none"

    def place(self, before: Place) -> Place:
        """What a connection gets now that was given this before."""
        return "served" if before == "health" and self.connections <= self.connections_max else before

    def gone(self) -> None:
        """One connection less."""
        self.connections -= 1
        if self._is_full and self.connections < self.connections_max:
            self._is_full = False
            _log.info("there is room for connections again")

    @property
    def warning(self) -> str:
        """What is short, and what to do about it; nothing if all is well."""
        if self.is_short:
            return (
                f"{self.used} of {self.allowed} open files are in use (ulimit -n): raise the limit, or end "
                "some connections, runs or tools; until then some of what is asked for fails"
            )
        if self._is_full:
            return (
                f"{self.connections_max} connections are open, as many as the limit on open files allows "
                "(ulimit -n): more are refused until some are closed"
            )
        return ""

    async def watch(self) -> None:
        """Look again and again, for ever."""
        while True:
            self.look(await asyncio.to_thread(used_files), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            await asyncio.sleep(LOOK_S)

    def look(self, used: int, allowed: int) -> None:
        """So many are in use, and so many may be."""
        self.used, self.allowed = used, allowed
        if allowed == resource.RLIM_INFINITY:
            return
        free = allowed - used
        if not self.is_short and free < FREE_MIN:
            self.is_short = True
            _log.error("%s", self.warning)
        elif self.is_short and free >= 2 * FREE_MIN:
            self.is_short = False
            _log.info("there are enough open files again: %d of %d are in use", used, allowed)


def used_files() -> int:
    """How many files this process has open; if there is none left to look with, all of them."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))  # noqa: PTH208
        except FileNotFoundError:
            continue
        except OSError:
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0
