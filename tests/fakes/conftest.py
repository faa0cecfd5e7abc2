"""Cancellations and cut connections are tested on asyncio's own loop and on uvloop.

Both have a clock that a busy machine doesn't move, since a fake and its client are in the same process.
"""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from paced_loop import PacedAsyncioLoop, PacedUvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

ON_EVERY_LOOP = {"test_cancel.py", "test_tcp_proxy.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    loops: Loops = {"uvloop": PacedUvloop}
    return {**loops, "asyncio": PacedAsyncioLoop} if item.path.name in ON_EVERY_LOOP else loops
