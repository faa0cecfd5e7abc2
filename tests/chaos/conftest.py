"""Tests of what a transport does run on asyncio's own loop and on uvloop; the rest of the server, on one."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

LOOPS: Loops = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
# Drops, resets and half-read uploads. Most other tests of the suite use the server on asyncio.
ON_EVERY_LOOP = {"test_faults.py", "test_record.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return LOOPS if item.path.name in ON_EVERY_LOOP else {"uvloop": LOOPS["uvloop"]}
