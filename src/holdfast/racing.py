"""Waiting for the first of several things, and for the end of the others."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast


async def race(
    *owned: asyncio.Future[Any],
    watched: Iterable[asyncio.Future[Any]] = (),
    within_s: float | None = None,
    cause: str = "",
    cause_of_stop: str = "",
) -> None:
    """Wait until one of the futures is done, or for `within_s` at most; then end those that are owned.

    An owned future that isn't done by then is cancelled with `cause`, or, if the caller is cancelled, with
    the caller's own cause (`cause_of_stop` if it has none). Every owned future has ended when this returns or
    raises, however often the caller is cancelled. Watched futures are left alone.
    """
    args: tuple[Any, ...] = (cause,) if cause else ()
    try:
        await asyncio.wait({*owned, *watched}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as stop:
        args = stop.args or ((cause_of_stop,) if cause_of_stop else ())
        raise
    finally:
        for future in owned:
            future.cancel(*args)
        await wait_through_cancel(*owned)


async def wait_through_cancel(*futures: asyncio.Future[Any]) -> None:
    """Wait until all of them are done; a cancellation that comes meanwhile is raised afterwards.

    They were cancelled once; passing on a second cancellation would interrupt their cleanup.
    """
    cancelled: asyncio.CancelledError | None = None
    while not all(future.done() for future in futures):
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError as stop:
            cancelled = stop
    if cancelled is not None:
        raise cancelled


def is_about(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether an error of these kinds is all that went wrong, also in tasks that ran side by side."""
    if isinstance(error, BaseExceptionGroup):
        nested = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_about(one, kinds) for one in nested.exceptions)
    return isinstance(error, kinds)
