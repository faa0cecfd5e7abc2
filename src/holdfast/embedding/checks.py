"""Checks of what a program passes to an agent: each error names the argument, at the call that is wrong."""

import asyncio
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.handlers import insist_on_handlers
from holdfast.targets import Patience
from holdfast.values import Budget

if TYPE_CHECKING:
    from holdfast.embedding.instructions import WriteInstructions


def insist_on_tools(tools: object) -> None:
    """Raise TypeError if it is no list."""
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools is a list of functions, and not {tools!r:.80}: write tools=[…].")


def insist_on_patience(patience: object) -> None:
    """Raise TypeError if it is no Patience."""
    if patience is not None and not isinstance(patience, Patience):
        raise TypeError(
            f"patience is a Patience, for example Patience(first_event_s=5), and not {patience!r:.80}."
        )


def insist_on_budget(budget: object) -> None:
    """Raise TypeError: what is wrong would otherwise be found inside the run, or never."""
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise TypeError(f"budget is a Budget, for example Budget(cost_usd=0.5), and not {budget!r:.80}.")
    for name in budget.__struct_fields__:
        limit: object = getattr(budget, name)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
            raise TypeError(
                f"{name} of a Budget is a number from 0, which is no limit, and not {limit!r:.80}."
            )


def text_or_function(instructions: object) -> "tuple[str, WriteInstructions | None]":
    """The instructions as a text, or the function that writes them; raises TypeError."""
    if isinstance(instructions, str):
        return instructions, None
    if not callable(instructions):
        raise TypeError(f"instructions is a text or a function, and not {instructions!r:.80}.")
    insist_on_handlers(instructions=instructions)
    return "", cast("WriteInstructions", instructions)


def insist_on_no_loop(name: str) -> None:
    """Raise if an event loop runs here: nothing may block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        f"An event loop is running here, so write `await {name}(…)` instead of run_sync."
    )


def insist_on_no_tool_child() -> None:
    """A script whose top level runs an agent would do so again in the process of each of its tools."""
    if getattr(sys.modules.get("__main__"), "IS_TOOL_CHILD", False):
        raise ConfigurationError(
            'This is the process of a tool. Put what runs the agent under `if __name__ == "__main__":`.'
        )
