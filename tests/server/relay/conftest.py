"""The relay and its model server are in one process here, so a busy machine takes nothing off their patience."""

import asyncio
from collections.abc import Callable, Mapping

from paced_loop import PacedAsyncioLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"paced": PacedAsyncioLoop}
