"""A call to make, background processes, and the loops that tests run on."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.tools.shell.background import Background
from tools.calls import QUICK, Call, DeadChildren, children, uncollected
from tools.loops import Loops, loops_for


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return loops_for(item)


@pytest.fixture
def dead_children() -> DeadChildren:
    """Lists this test's children that nobody has collected."""
    return partial(uncollected, children())


@pytest.fixture
def call(tmp_path: Path) -> Call:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Call(workspace=workspace)


@pytest.fixture
async def background(tmp_path: Path) -> AsyncIterator[Background]:
    made = Background(tmp_path / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    yield made
    for session_id in ("session-1", "session-2"):
        for job in made.jobs(session_id):
            await made.kill(job)
    await made.close()
