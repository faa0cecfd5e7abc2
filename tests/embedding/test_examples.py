"""Every public name shows an example in its docstring, and every example runs as it is written."""

import ast
import asyncio
import inspect
import pydoc
import textwrap
from collections.abc import Iterator
from inspect import CO_COROUTINE
from types import FunctionType
from typing import Any

import pytest

import holdfast
from holdfast import Agent, testing
from holdfast.embedding.agent import Agent as AgentClass

MARK = "Example::\n"
# Plain values: what they are is their whole use.
WITHOUT = {
    "__version__",
    "hide_process",
    "Budget",
    "Deny",
    "McpSandboxSettings",
    "McpServerSettings",
    "RunError",
    "Target",
}
STEPS_OF_CHAOS = set(testing.__all__) - {"Call", "FakeClock", "ScriptedModel"}


def documented() -> Iterator[tuple[str, Any]]:
    for name in holdfast.__all__:
        yield name, getattr(holdfast, name)
    for name in testing.__all__:
        yield f"testing.{name}", getattr(testing, name)
    for name, method in inspect.getmembers(Agent, inspect.isroutine):
        if not name.startswith("_"):
            yield f"Agent.{name}", method


def example_of(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    return textwrap.dedent(text.partition(MARK)[2])


EXAMPLES = {name: example_of(thing) for name, thing in documented()}


def test_every_public_name_has_an_example() -> None:
    missing = {name for name, text in EXAMPLES.items() if not text}
    assert missing <= WITHOUT | {f"testing.{name}" for name in STEPS_OF_CHAOS}


@pytest.mark.parametrize("name", sorted(name for name, text in EXAMPLES.items() if text))
def test_an_example_runs(name: str) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(EXAMPLES[name], f"<example of {name}>", "exec", flags=flags)
    called = FunctionType(code, {"__name__": "example"})
    if code.co_flags & CO_COROUTINE:
        asyncio.run(_awaited(called))
    else:
        called()


async def _awaited(called: Any) -> None:
    await called()


def test_help_is_readable() -> None:
    """Names of aliases, and no union of all events."""
    for thing in (AgentClass, holdfast.RunHandle, holdfast.AgentSession, holdfast.Result):
        text = pydoc.render_doc(thing, renderer=pydoc.plaintext)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownArgumentType]  # typeshed lacks it
        assert "TextDelta" not in text
        assert max(map(len, text.splitlines())) < 560
