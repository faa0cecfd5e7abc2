"""What holds for every test: nothing in holdfast blocks the event loop."""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with blockbuster_ctx("holdfast") as blocking:
        for acquire in ("threading.Lock.acquire", "threading.Lock.acquire_lock"):
            # The measuring of coverage has a lock of its own.
            blocking.functions[acquire].can_block_in("coverage/collector.py", {"lock_data"})
        yield
