"""What holds for every test: nothing in holdfast blocks the event loop."""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with blockbuster_ctx("holdfast"):
        yield
