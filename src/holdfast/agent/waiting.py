"""Waiting for the end of what was told to end."""

import asyncio
from typing import Any


async def wait_through_cancel(*tasks: asyncio.Future[Any]) -> None:
    """Wait until all of them are done, through any cancellation, which is raised after.

    They were told once; a second time would cut short how they end what they began.
    """
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as stop:
            cancelled = stop
    if cancelled is not None:
        raise cancelled
