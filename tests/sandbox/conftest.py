"""What the proxy is patient with: hosts and clients are in the same process, so a busy machine slows all."""

import asyncio
from collections.abc import Callable, Mapping

from paced_loop import PacedAsyncioLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"paced": PacedAsyncioLoop}
