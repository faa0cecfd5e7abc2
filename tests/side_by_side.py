"""One test for all wires: it runs on them side by side, so it waits once and is set up once."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, get_args

from holdfast.targets import Wire

WIRES: tuple[Wire, ...] = get_args(Wire)

Test = Callable[..., Coroutine[Any, Any, None]]


def on_each_wire(test: Test) -> Test:
    """Run the test with each `wire` at the same time."""
    return _on(WIRES, test)


def on_wires(*wires: Wire) -> Callable[[Test], Test]:
    """Run the test with each of these wires at the same time."""
    return partial(_on, wires)


def _on(wires: Sequence[Wire], test: Test) -> Test:
    async def on(wire: Wire, values: dict[str, Any]) -> None:
        try:
            await test(wire=wire, **values)
        except BaseException as error:
            error.add_note(f"on the wire {wire}")
            raise

    @wraps(test)
    async def on_all(**values: Any) -> None:
        ended = await asyncio.gather(*(on(wire, values) for wire in wires), return_exceptions=True)
        if failed := [error for error in ended if error is not None]:
            raise BaseExceptionGroup(f"{len(failed)} of {len(wires)} wires failed", failed)

    known = inspect.signature(test)
    kept = [parameter for name, parameter in known.parameters.items() if name != "wire"]
    setattr(on_all, "__signature__", known.replace(parameters=kept))  # noqa: B010  # pytest reads it
    return on_all
