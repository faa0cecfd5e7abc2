"""The runs that have no ending yet, as a start finds them."""

from collections.abc import AsyncGenerator

from holdfast.folds.rows import RunRow, RunStatus
from holdfast.interfaces.journal import Index, RunQuery

PAGE = 200
OPEN: tuple[RunStatus, ...] = ("running", "stopping", "queued")


async def open_runs(index: Index) -> AsyncGenerator[RunRow]:
    """All of them, those that were running first."""
    for status in OPEN:
        before: tuple[int, str] | None = None
        while True:
            runs = await index.runs(RunQuery(limit=PAGE, before=before, status=status))
            for run in runs:
                yield run
            if len(runs) < PAGE:
                break
            before = (runs[-1].created_ms, runs[-1].run_id)
