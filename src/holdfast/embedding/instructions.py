"""Instructions that a function writes for each run."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias

from msgspec import Struct
from typing_extensions import TypeVar

from holdfast.embedding.handlers import called

DepsT = TypeVar("DepsT", default=None)


class InstructionsContext(Struct, Generic[DepsT], frozen=True, kw_only=True):
    """What a function passed as `instructions` gets: the run that is about to start.

    The function returns the text, and may be async. It's called once for each run, and its text is stored
    with the run: after a crash, the run continues with the same instructions.

    Example::

        from holdfast import Agent, InstructionsContext
        from holdfast.testing import Say, ScriptedModel

        def instructions(context: InstructionsContext[str]) -> str:
            return f"Answer in {context.deps}."

        model = ScriptedModel([Say("Grüezi!")])
        agent = Agent[str](model, instructions=instructions)
        await agent.run("Hello", deps="Swiss German")
        assert "Answer in Swiss German." in str(model.requests[0]["messages"][0])
    """

    deps: DepsT
    session_id: str
    prompt: str  # its text


WriteInstructions: TypeAlias = Callable[[InstructionsContext[Any]], str | Awaitable[str]]
Instructions: TypeAlias = str | WriteInstructions


async def written(write: WriteInstructions, context: InstructionsContext[Any]) -> str:
    """The text for this run; raises what the function raises, and TypeError if it returns no text."""
    text = await called(write, context)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
        raise TypeError(f"instructions returned {text!r:.80}, and not a text.")
    return text
