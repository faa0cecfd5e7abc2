"""One browser for all tests of a worker; each test has a profile of its own in it."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Playwright, async_playwright

from page.browsing import Visit

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def _built() -> None:  # pyright: ignore[reportUnusedFunction]
    """The page is that of these very sources; two workers do not build it at the same time."""
    lock = ROOT / "frontend" / "node_modules" / ".build-lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        subprocess.run([sys.executable, "hatch_build.py"], cwd=ROOT, check=True)


@pytest.fixture(scope="session")
def _asyncio_loop_factory() -> None:  # pyright: ignore[reportUnusedFunction]
    """The loop of these tests is theirs alone.

    Otherwise a test elsewhere that names a loop ends the shared one, and the browser with it.
    """


@asynccontextmanager
async def launched(playwright: Playwright, *programs: str) -> AsyncGenerator[Browser]:
    """The first of these programs that is installed."""
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    program = next(filter(None, map(shutil.which, programs)), None)
    browser = await playwright.chromium.launch(executable_path=program, args=arguments)
    yield browser
    await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def playwright() -> AsyncGenerator[Playwright]:
    async with async_playwright() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(_built: None, playwright: Playwright) -> AsyncGenerator[Browser]:
    """The build of Chromium that has no windows uses half the CPU time."""
    async with launched(playwright, "chromium-headless-shell", "chromium") as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def whole_browser(_built: None, playwright: Playwright) -> AsyncGenerator[Browser]:
    """Chromium as people have it, with its PDF viewer."""
    async with launched(playwright, "chromium") as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """Opens pages; whatever a page logs as an error fails the test."""
    async with AsyncExitStack() as stack:
        visiting = Visit(browser, stack)
        yield visiting
    assert not visiting.errors
