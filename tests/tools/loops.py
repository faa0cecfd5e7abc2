"""The event loops that the tools' tests run on: uvloop, as in the server, unless a test is marked."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

# For transports, child processes, signals and cancellation. `Agent` in a program runs on asyncio's own loop.
ON_BOTH_LOOPS = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


def loops_for(item: pytest.Item) -> Loops:
    server: Loops = {"uvloop": uvloop.new_event_loop}
    mark = item.get_closest_marker("asyncio")
    chosen = mark is not None and "loop_factories" in mark.kwargs
    return {"asyncio": asyncio.new_event_loop, **server} if chosen else server
