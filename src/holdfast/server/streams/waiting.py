"""Waiting for a run's end, for clients that want one whole response."""

import asyncio
from collections.abc import Callable

from starlette.requests import Request

from holdfast import events as e
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.session_fold import RunReadModel
from holdfast.racing import race
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem

# The openai package retries requests with such a status, unless it's told not to.
NO_RETRY = {"X-Should-Retry": "false"}


async def wait_for(
    deps: RouteDeps, row: RunRow, request: Request, *, on_left: Callable[[], None] | None = None
) -> RunReadModel:
    """Wait until the run has ended; returns the run.

    The wait also ends when the client disconnects or the server shuts down.
    `on_left` is called when the wait is over for any reason.
    """
    ending = asyncio.ensure_future(_ended(deps, row))
    leaving = asyncio.ensure_future(_left(request))
    closing = asyncio.ensure_future(deps.streams.until_end())
    try:
        await race(ending, leaving, closing)
    finally:
        if on_left is not None:
            on_left()
    if not ending.cancelled():
        return ending.result()
    # A retry without an idempotency key would start a second run while the first continues.
    again = {} if "idempotency-key" in request.headers else NO_RETRY
    raise Problem(
        503,
        "The server is shutting down; the run continues after the restart",
        code="shutting_down",
        headers={"Retry-After": "2", "X-Hermes-Run-Id": row.run_id, **again},
    )


async def wait_a_while(deps: RouteDeps, run_id: str) -> None:
    """Wait until the run has ended, for longer than an abandoned run may live."""
    row = await deps.store.run(run_id)
    if row is None:
        return
    ending = asyncio.ensure_future(_ended(deps, row))
    closing = asyncio.ensure_future(deps.streams.until_end())
    await race(ending, closing, within_s=2 * deps.limits.disconnect_grace_s)
    for task in (ending, closing):
        if not task.cancelled():
            task.exception()  # the reader of the run's ending finds out what happened


async def _ended(deps: RouteDeps, row: RunRow) -> RunReadModel:
    async for records in deps.store.follow(row.session_id, after=row.first_seq - 1, pace="seldom"):
        for record in records:
            if isinstance(record.event, e.RunEnded) and run_of(record.event) == row.run_id:
                current = await deps.store.run(row.run_id) or row
                return await deps.folds.run(current)
    text = "The run's session is gone, or the server is shutting down"
    raise Problem(503, text, code="shutting_down", headers=NO_RETRY)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
