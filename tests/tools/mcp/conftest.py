"""A call of an MCP tool."""

import os
from itertools import count
from pathlib import Path

import pytest

from tools.mcp.scene import McpCall

_numbers = count(1)


@pytest.fixture
def call(tmp_path: Path) -> McpCall:
    return McpCall(workspace=tmp_path)


@pytest.fixture
def owner() -> str:
    """A name that marks this test's processes alone."""
    return f"test-{os.getpid()}-{next(_numbers)}"
