"""What the relay is patient with: the model server is in the same process, so a busy machine slows both."""

import asyncio
from collections.abc import Callable, Mapping

from paced_loop import PacedAsyncioLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"paced": PacedAsyncioLoop}
