"""Calls are tested on uvloop, as they are made; what depends on the loop is tested on asyncio's own too.

Both have a clock that a busy machine doesn't move, since the model server is in the same process.
"""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from holdfast.targets import Wire
from paced_loop import PacedAsyncioLoop, PacedUvloop

from .calling import WIRES

ON_BOTH_LOOPS = {"test_body", "test_cancel", "test_connections", "test_proxy", "test_tls", "test_upload"}

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    loops = {"uvloop": PacedUvloop, "asyncio": PacedAsyncioLoop}
    return loops if item.path.stem in ON_BOTH_LOOPS else {"uvloop": PacedUvloop}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found
