"""What a crashed server left running: looked for once, and ended before the run that it is of goes on."""

import asyncio
import logging

from holdfast.tools.marker import markers_in
from holdfast.tools.offload import offload
from holdfast.tools.proctable import environ_of, table
from holdfast.tools.scope import kill_leftovers

_log = logging.getLogger(__name__)

LOOKS = 2  # a process that forks and exits while the table is read may hide its child


class Leftovers:
    """The runs of which an earlier process left something; one look at all processes serves all runs."""

    def __init__(self) -> None:
        self._looking = asyncio.Lock()
        self._runs: frozenset[str] | None = None

    async def end(self, run_id: str) -> None:
        """End what is left of the run's foreground calls; to be called before anything of it starts here."""
        async with self._looking:
            if self._runs is None:
                self._runs = await offload(_runs_with_processes)
        if run_id in self._runs and (alive := await kill_leftovers(run_id)):
            _log.warning("of run %s something is alive after KILL: %s", run_id, ", ".join(map(str, alive)))


def _runs_with_processes() -> frozenset[str]:
    """The ids of runs that living processes carry as their mark; blocks."""
    return frozenset(
        marker.run_id
        for _ in range(LOOKS)
        for row in table()
        for marker in markers_in(environ_of(row.pid))
        if not marker.background
    )
