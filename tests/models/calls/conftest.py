"""Calls are tested on the event loop that the server runs on; the parts that touch sockets also on asyncio's."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from holdfast.targets import Wire

from .calling import WIRES

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories() -> Loops:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found
