"""Every test of the server runs on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories() -> Loops:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
