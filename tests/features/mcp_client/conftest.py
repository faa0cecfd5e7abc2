"""A call of an MCP tool, and the loops that tests run on."""

import os
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from features.mcp_client.scene import McpCall
from tools.calls import DeadChildren, children, uncollected
from tools.loops import Loops, loops_for

_numbers = count(1)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return loops_for(item)


@pytest.fixture
def call(tmp_path: Path) -> McpCall:
    return McpCall(workspace=tmp_path)


@pytest.fixture
def dead_children() -> DeadChildren:
    """Lists this test's children that nobody has collected."""
    return partial(uncollected, children())


@pytest.fixture
def owner() -> str:
    """A name that marks this test's processes alone."""
    return f"test-{os.getpid()}-{next(_numbers)}"
