"""Every test of the tools runs on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from holdfast.tools.shell.background import Background
from tools.calls import EARLIER_CHILDREN, QUICK, Call

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories() -> Loops:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _know_earlier_children() -> None:  # pyright: ignore[reportUnusedFunction]
    EARLIER_CHILDREN.look()


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
