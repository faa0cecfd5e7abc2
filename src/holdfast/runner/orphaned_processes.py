"""Processes that a crashed server left running: found once, and killed before their run continues."""

import asyncio
import logging
import time

from msgspec import Struct

from holdfast.folds.run import Run
from holdfast.tools.offload import offload
from holdfast.tools.shell.marker import foreground_tag, is_foreground, markers_in
from holdfast.tools.shell.process_table import environ_of, table, tag_of

_log = logging.getLogger(__name__)

SCANS = 2  # a process that forks and exits while the table is read may hide its child


class _Leftovers(Struct, frozen=True):
    """The runs that the markers of living processes name, and the tags of processes without a marker."""

    runs: frozenset[str]
    tags: frozenset[int]


class OrphanedProcesses:
    """Finds and kills what earlier servers left running; one scan of all processes serves all runs.

    With `others`, another server on this machine may die at any time, so a run with open calls needs a scan
    that began after it was taken over.
    """

    def __init__(self, *, others: bool = False) -> None:
        self._others = others
        self._scan_lock = asyncio.Lock()
        self._found: _Leftovers | None = None
        self._scanned_s = 0.0

    async def end(self, run: Run) -> None:
        """Kill what is left of the run's foreground calls; call it before the run continues."""
        from holdfast.tools.shell.marker import why_daemons_hide
        from holdfast.tools.shell.scope import kill_leftovers  # only runs that resume need these

        begun = [call.asked.tool_call_id for call in run.unfinished_tools if call.started is not None]
        asked_s = time.monotonic()
        async with self._scan_lock:
            is_old = self._others and begun and self._scanned_s < asked_s
            if self._found is None or is_old:
                self._scanned_s = time.monotonic()
                self._found = await offload(_scan)
        if begun and (why := await offload(why_daemons_hide)):
            _log.warning("processes of run %s may still be running: %s", run.run_id, why)
        tags = {foreground_tag(run.run_id, tool_call_id) for tool_call_id in begun}
        if run.run_id not in self._found.runs and self._found.tags.isdisjoint(tags):
            return
        if alive := await kill_leftovers(run.run_id, tool_call_ids=begun):
            named = ", ".join(map(str, alive))
            _log.warning("processes of run %s are still alive after SIGKILL: %s", run.run_id, named)


def _scan() -> _Leftovers:
    """Scan all processes; blocks."""
    runs: set[str] = set()
    tags: set[int] = set()
    for _ in range(SCANS):
        for row in table():
            markers = list(markers_in(environ_of(row.pid)))
            runs.update(marker.run_id for marker in markers if not marker.background)
            if not markers and is_foreground(tag := tag_of(row.pid)):
                tags.add(tag)
    return _Leftovers(frozenset(runs), frozenset(tags))
