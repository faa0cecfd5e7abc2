"""Where runs wait while the server drains: at their next checkpoint, with everything on the log."""

import asyncio

from holdfast.folds.run import Run


class DrainGate:
    """Whether a run may begin its next step; once it is closed, every run waits at its next checkpoint.

    `waiting` holds the ids of the runs that wait.
    """

    def __init__(self) -> None:
        self.closed = False
        self.waiting: set[str] = set()

    def close(self) -> None:
        """From now on nothing begins."""
        self.closed = True

    async def checkpoint(self, run_id: str) -> None:
        """Return at once while the gate is open; wait until cancelled once it is closed."""
        if self.closed:
            self.waiting.add(run_id)
            await asyncio.get_running_loop().create_future()


def in_flight(run: Run) -> bool:
    """Whether the run has begun something that has no end on the log yet."""
    return run.attempt_is_open or any(tool.started is not None for tool in run.unfinished_tools)
