"""Where runs wait while the server drains: at their next checkpoint, with everything in the log."""

import asyncio

from holdfast.folds.run import Run


class DrainGate:
    """Whether a run may begin its next step; once closed, every run waits at its next checkpoint.

    `waiting` has the ids of the runs that wait.
    """

    def __init__(self) -> None:
        self.closed = False
        self.waiting: set[str] = set()

    def close(self) -> None:
        """Let nothing new begin."""
        self.closed = True

    async def checkpoint(self, run_id: str) -> None:
        """Return immediately while the gate is open; once it is closed, wait until cancelled."""
        if self.closed:
            self.waiting.add(run_id)
            await asyncio.get_running_loop().create_future()


def in_flight(run: Run) -> bool:
    """Whether the run has begun something that has no ending in the log yet."""
    return run.attempt_is_open or bool(run.busy_tools)
