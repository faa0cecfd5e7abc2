"""The conformance suite runs on every store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.interfaces.journal import Store
from journal.labs import LABS, Lab, PostgresLab


@pytest.fixture(params=[*LABS, "postgres"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    if request.param == "postgres":
        return PostgresLab(request.getfixturevalue("postgres_dsn"))
    return LABS[request.param](tmp_path)


@pytest.fixture
async def store(lab: Lab) -> AsyncIterator[Store]:
    opened = await lab.open()
    yield opened
    await opened.close()
