"""What holds for every test: nothing in holdfast blocks the event loop, and no clock decides a property."""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, and that says nothing about the property.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with blockbuster_ctx("holdfast") as blocking:
        for acquire in ("threading.Lock.acquire", "threading.Lock.acquire_lock"):
            # The measuring of coverage has a lock of its own.
            blocking.functions[acquire].can_block_in("coverage/collector.py", {"lock_data"})
        yield
