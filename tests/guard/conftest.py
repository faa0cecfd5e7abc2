"""What depends on the event loop is tried on asyncio's own and on uvloop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from paced_loop import PacedAsyncioLoop, PacedUvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

ON_BOTH = {"test_cancel.py", "test_uploads.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    loops: Loops = {"asyncio": PacedAsyncioLoop}
    return {**loops, "uvloop": PacedUvloop} if item.path.name in ON_BOTH else loops
