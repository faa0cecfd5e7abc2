"""The conformance suite runs on every store."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from holdfast.interfaces.journal import Store
from journal.labs import LABS, Lab, PostgresLab, emptied, opened
from postgres_lab import PostgresServer

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


@pytest.fixture(params=[*LABS, "postgres"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    if request.param == "postgres":
        return PostgresLab(request.getfixturevalue("postgres_dsn"))
    return LABS[request.param](tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres_store(postgres: PostgresServer) -> AsyncIterator[Store]:
    """One for all tests of a module: to open it takes longer than most of them."""
    dsn = postgres.borrow()
    store = await PostgresLab(dsn).open()
    yield store
    await store.close()
    postgres.give_back(dsn)


@pytest.fixture(params=[*LABS, "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    if request.param == "postgres":
        return partial(emptied, request.getfixturevalue("postgres_store"))
    return partial(opened, LABS[request.param](tmp_path))


@pytest_asyncio.fixture(loop_scope="module")
async def store(opening: Opening) -> AsyncIterator[Store]:
    """An empty store, for tests that leave it open and run on the loop of their module."""
    async with opening() as made:
        yield made
