"""The conformance suite runs on every store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.interfaces.journal import Store
from journal.labs import LABS, Lab


@pytest.fixture(params=LABS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return LABS[request.param](tmp_path)


@pytest.fixture
async def store(lab: Lab) -> AsyncIterator[Store]:
    opened = await lab.open()
    yield opened
    await opened.close()
