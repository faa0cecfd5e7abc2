"""The conformance suite runs on every store."""

from collections.abc import AsyncIterator, Callable, Iterator
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


@pytest.fixture(scope="module")
def shared_lab(postgres: PostgresServer) -> Iterator[PostgresLab]:
    dsn = postgres.borrow()
    yield PostgresLab(dsn)
    postgres.give_back(dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres_store(shared_lab: PostgresLab) -> AsyncIterator[Store]:
    """One for all tests of a module: to open it takes longer than most of them."""
    async with opened(shared_lab) as store:
        yield store


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
