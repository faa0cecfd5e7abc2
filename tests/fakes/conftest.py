"""Cancellations and cut connections are tested on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from chaos.conftest import LOOPS

ON_EVERY_LOOP = {"test_cancel.py", "test_tcp_proxy.py"}


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS if item.path.name in ON_EVERY_LOOP else {"uvloop": LOOPS["uvloop"]}
