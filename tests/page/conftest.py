"""One browser for all tests of a worker; each test has a profile of its own in it."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from page.browsing import Visit

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def _built() -> None:  # pyright: ignore[reportUnusedFunction]
    """The page is that of these very sources; two workers do not build it at the same time."""
    lock = ROOT / "frontend" / "node_modules" / ".build-lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        subprocess.run([sys.executable, "hatch_build.py"], cwd=ROOT, check=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(_built: None) -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        launched = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """Opens pages; whatever a page logs as an error fails the test."""
    async with AsyncExitStack() as stack:
        visiting = Visit(browser, stack)
        yield visiting
    assert not visiting.errors
