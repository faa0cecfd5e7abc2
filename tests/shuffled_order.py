"""A pytest plugin that shuffles the files and the tests in each, by the seed in `--order-seed`."""

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the seed."""
    parser.addoption("--order-seed", required=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle; tests of one file stay together, because they share fixtures."""
    source = random.Random(config.getoption("--order-seed"))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    source.shuffle(groups)
    for group in groups:
        source.shuffle(group)
    items[:] = [item for group in groups for item in group]
