"""The context of a tool's function, and the exception that asks the model to retry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Generic

from typing_extensions import TypeVar

from holdfast.interfaces.tool import ToolCall

DepsT = TypeVar("DepsT", default=None)


class Retry(Exception):
    """Raise it in a tool to tell the model what to do differently and to call the tool again.

    Example::

        from holdfast import Agent, Retry
        from holdfast.testing import Call, Say, ScriptedModel

        async def weather(city: str) -> str:
            '''The weather of a city.'''
            if city == "Munchen":
                raise Retry("Write the city's name in its own language: München.")
            return "sunny"

        calls = [Call("weather", city="Munchen"), Call("weather", city="München")]
        model = ScriptedModel([*calls, Say("Sunny.")])
        result = await Agent(model, tools=[weather]).run("How is the weather in Munich?")
        assert result.output == "Sunny."
    """


class ToolContext(Generic[DepsT]):
    """The first parameter of a tool that wants to know about its call; the model doesn't see it.

    `deps` is what you passed to `run(deps=…)`. `effect_key` is the same when the call is repeated after a
    crash: send it along as an idempotency key.

    Example::

        from dataclasses import dataclass

        from holdfast import Agent, ToolContext
        from holdfast.testing import Call, Say, ScriptedModel

        @dataclass
        class Shop:
            prices: dict[str, int]

        async def price(context: ToolContext[Shop], item: str) -> int:
            '''The price of an item, in cents.'''
            await context.say(f"looking up {item}")
            return context.deps.prices[item]

        agent = Agent[Shop](ScriptedModel([Call("price", item="tea"), Say("250 cents.")]), tools=[price])
        result = await agent.run("What does tea cost?", deps=Shop({"tea": 250}))
        assert result.output == "250 cents."
    """

    def __init__(self, call: ToolCall, deps: DepsT) -> None:
        self._call = call
        self.deps = deps

    @property
    def run_id(self) -> str:
        """The run that the call belongs to."""
        return self._call.run_id

    @property
    def session_id(self) -> str:
        """The session that the run belongs to."""
        return self._call.session_id

    @property
    def effect_key(self) -> str:
        """Identifies the effect of this call, also after a crash."""
        return self._call.effect_key

    @property
    def workspace(self) -> Path:
        """The folder that the agent works in."""
        return self._call.workspace

    async def say(self, text: str) -> None:
        """Show progress to readers of the run."""
        await self._call.say(text, stream="progress")

    async def ask(self, question: str, *, choices: Sequence[str] = ()) -> str:
        """Ask the person a question and wait for the answer; raises NobodyAnswered.

        The question is on the log, and `patience_s` rests while it is open. `choices` are answers to choose
        from, but the person may answer freely. After a crash, a tool that is `read_only` or `idempotent` runs
        again, and the same question is not asked a second time. Of any other tool it's then unknown what it
        did, so its question is withdrawn.

        Example::

            from holdfast import Agent, PendingQuestion, ToolContext
            from holdfast.testing import Call, Say, ScriptedModel

            async def order(context: ToolContext, item: str) -> str:
                '''Order an item.'''
                size = await context.ask(f"Which size of {item}?", choices=("small", "large"))
                return f"ordered: {item}, {size}"

            async def answer(question: PendingQuestion) -> str:
                return question.choices[0]  # or ask somebody

            model = ScriptedModel([Call("order", item="tea"), Say("Done.")])
            agent = Agent(model, tools=[order], on_question=answer)
            assert (await agent.run("Order tea")).output == "Done."
        """
        return await self._call.ask(question, tuple(choices))
