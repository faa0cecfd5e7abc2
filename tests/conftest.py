"""What holds for every test: nothing in holdfast blocks the event loop, and no clock decides a property."""

import gc
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

from object_lab import S3Server, s3_server
from postgres_lab import PostgresServer, postgres_server

pytest_plugins = ["workers"]

# A busy machine makes an example slow, and that says nothing about the property.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# What pyproject.toml selects, and how a file says that none of its tests is selected by that.
NOT_FOR_RELEASE = "not release"
WHOLE_FILE_FOR_RELEASE = "\npytestmark = pytest.mark.release\n"

# A closed store's thread ends within this time; only that of an open one is waited for.
WRITER_ENDS_S = 30.0

# How deep pytest may go into the causes of a failure and the groups in it.
REPORT_DEPTH = 20_000


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """Show whatever fails; otherwise pytest ends the whole run with an error of its own.

    A failure may have hundreds of causes or nested groups. Python 3.11 also takes it for an error if garbage
    collection, which may log lost exceptions with their lines, reads source while pytest does.
    """
    usual, collects = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(REPORT_DEPTH)
    gc.disable()
    try:
        return (yield)
    finally:
        sys.setrecursionlimit(usual)
        if collects:
            gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't import a file that only a release needs: what it imports may take seconds."""
    if config.option.markexpr != NOT_FOR_RELEASE or collection_path.suffix != ".py":
        return None
    return True if WHOLE_FILE_FOR_RELEASE in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what collecting all tests leaves in memory out of every later garbage collection.

    That is a million objects, and a test that looks through memory for leaks reads them all each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start files with long tests first, so that none keeps one process busy after the others have ended.

    Several processes also spread the files of each folder over the whole run. In the order of their names,
    all would have a browser at the same time, and starve, or all wait for programs that start.
    """
    if config.option.numprocesses:
        _spread(items)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def _spread(items: list[pytest.Item]) -> None:
    """The files of each folder at equal distances; tests of a file stay together, as they share fixtures."""
    folders: dict[Path, dict[Path, None]] = {}
    for item in items:
        folders.setdefault(item.path.parent, {})[item.path] = None
    place = {path: (nth + 0.5) / len(files) for files in folders.values() for nth, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])


@pytest.fixture(scope="session")
def _blocking() -> BlockBuster:  # pyright: ignore[reportUnusedFunction]
    """Looking up the functions that block takes as long as a small test, so it is done once."""
    blocking = BlockBuster("holdfast")
    for acquire in ("threading.Lock.acquire", "threading.Lock.acquire_lock"):
        # The measuring of coverage has a lock of its own.
        blocking.functions[acquire].can_block_in("coverage/collector.py", {"lock_data"})
    return blocking


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop(_blocking: BlockBuster) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    _blocking.activate()
    yield
    _blocking.deactivate()


@pytest.fixture(autouse=True, scope="module")
def _left_open_here_fails_here() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """A file whose tests leave something open fails; otherwise some later test does.

    An unclosed connection is found by garbage collection, which runs whenever a test has allocated enough.
    What stays in memory for good is out of later collections, so that each takes a few milliseconds. An open
    store saves itself when its files are deleted, which a test that counts files notices.
    """
    before = _store_writers()
    yield
    gc.collect()
    gc.freeze()
    for writer in _store_writers() - before:
        writer.join(WRITER_ENDS_S)
        assert not writer.is_alive(), "a test of this file left a SqliteStore open"


def _store_writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "holdfast-writer"}


@pytest.fixture(autouse=True)
def _source_is_read_alone(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Tests that read source do so without garbage collection, for the reason given above."""
    if not hasattr(request.module, "ast"):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        yield
        return
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real Postgres, started for the first test of this process that asks for it."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server, started for the first test of this process that asks for it."""
    with s3_server() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database without data; earlier tests may have left its tables."""
    dsn = postgres.borrow()
    yield dsn
    postgres.give_back(dsn)


@pytest.fixture
def new_postgres_dsn(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new, empty database, for tests that change its tables."""
    dsn = postgres.database()
    yield dsn
    postgres.drop(dsn)
