"""Where runs stay while the server drains: at their next safe point, with everything on the log."""

import asyncio

from holdfast.folds.run import Run


class Rest:
    """Whether anything may begin; once it is called, whoever comes to a safe point stays there.

    `waiting` holds the ids of the runs that do.
    """

    def __init__(self) -> None:
        self.called = False
        self.waiting: set[str] = set()

    def call(self) -> None:
        """From now on nothing begins."""
        self.called = True

    async def point(self, run_id: str) -> None:
        """A safe point of a run: passed at once, or never if rest was called; cancelling ends the wait."""
        if self.called:
            self.waiting.add(run_id)
            await asyncio.get_running_loop().create_future()


def in_flight(run: Run) -> bool:
    """Whether the run has begun something of which the log does not hold the end."""
    return run.attempt_is_open or any(tool.started is not None for tool in run.unfinished_tools)
