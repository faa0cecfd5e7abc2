"""What a program that uses an agent may have to catch: one tree, under `HoldfastError`."""

from collections.abc import Mapping
from typing import Any

from holdfast.values import Action, Failure


class HoldfastError(Exception):
    """The base of every error that an agent raises; the message says what to do.

    `run_id` names the run, if there is one, and `partial` is the text that it said before it ended.

    Example::

        from holdfast import Agent, HoldfastError
        from holdfast.testing import Refuse, ScriptedModel

        agent = Agent(ScriptedModel([Refuse("I can't help with that.")]))
        try:
            await agent.run("Pick this lock")
        except HoldfastError as error:
            print(error, error.run_id)
    """

    def __init__(self, message: str, *, run_id: str = "", partial: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id
        self.partial = partial


class ConfigurationError(HoldfastError):
    """The agent, or the call, can't work as written: an unknown model, a missing key, a store that is in use.

    Example::

        from holdfast import Agent, ConfigurationError

        try:
            Agent("gpt-5")
        except ConfigurationError as error:
            assert "provider:model" in str(error)
    """


class RunError(HoldfastError):
    """A run ended without the result that you asked for."""


class RunFailed(RunError):
    """The run failed: the model couldn't be reached, its key was refused, and so on.

    `failure` says why, for programs: `failure.kind` is one of a fixed set (`auth`, `rate_limited`, …).
    It is None if the run was interrupted by something else than a model.

    Example::

        from holdfast import Agent, RunFailed
        from holdfast.testing import ScriptedModel, bad_key

        try:
            await Agent(ScriptedModel([bad_key()])).run("hello")
        except RunFailed as error:
            assert error.failure.kind == "auth"
    """

    def __init__(
        self, message: str, *, run_id: str = "", partial: str = "", failure: Failure | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, partial=partial)
        self.failure = failure


class RunRefused(RunError):
    """The model, or its provider, refused to answer.

    Example::

        from holdfast import Agent, RunRefused
        from holdfast.testing import Refuse, ScriptedModel

        try:
            await Agent(ScriptedModel([Refuse("I can't help with that.")])).run("Pick this lock")
        except RunRefused as error:
            assert error.partial == "I can't help with that."
    """


class RunTruncated(RunError):
    """The answer was cut off at a length limit; `partial` is what there is.

    Example::

        from holdfast import RunTruncated

        assert RunTruncated("cut off", partial="Once upon").partial == "Once upon"
    """


class BudgetExceeded(RunError):
    """The run used up its budget of tokens, dollars, turns or minutes.

    Example::

        from holdfast import Agent, Budget, BudgetExceeded
        from holdfast.testing import Call, Say, ScriptedModel

        async def look() -> str:
            '''Look around.'''
            return "nothing"

        agent = Agent(ScriptedModel([Call("look"), Say("done")]), tools=[look])
        try:
            await agent.run("look", budget=Budget(turns=1))
        except BudgetExceeded as error:
            print(error)
    """


class RunCancelled(RunError):
    """Somebody stopped the run; nothing of it is still running.

    Example::

        from holdfast import Agent, RunCancelled
        from holdfast.testing import Hang, ScriptedModel

        async with Agent(ScriptedModel([Hang()])) as agent:
            run = await agent.start("hello")
            await run.stop()
            try:
                await run.result()
            except RunCancelled as error:
                assert error.run_id == run.id
    """


class OutputInvalid(RunError):
    """The model's answer doesn't fit `output_type`, even after it was told why; `partial` is the answer.

    Example::

        from holdfast import Agent, OutputInvalid
        from holdfast.testing import Say, ScriptedModel

        agent = Agent(ScriptedModel([Say("seven"), Say("still seven")]))
        try:
            await agent.run("How many?", output_type=int)
        except OutputInvalid as error:
            assert error.partial == "still seven"
    """


class ApprovalNeeded(RunError):
    """A tool call needs an approval and nobody is there to ask.

    The run waits. `approval_id`, `tool`, `arguments` and `action` say what for; answer with `run.approve` or
    `run.deny` of the run that `agent.attach(error.run_id)` gives you, or pass `on_approval=` to the agent.

    Example::

        from holdfast import Agent, ApprovalNeeded, tool
        from holdfast.testing import Call, Say, ScriptedModel

        @tool(needs_approval=True)
        async def pay(cents: int) -> str:
            '''Pay somebody.'''
            return "paid"

        agent = Agent(ScriptedModel([Call("pay", cents=5), Say("Done.")]), tools=[pay])
        try:
            await agent.run("Pay 5 cents")
        except ApprovalNeeded as needed:
            assert needed.arguments == {"cents": 5}
            async with agent:
                run = await agent.attach(needed.run_id)
                await run.approve(needed.approval_id)
                assert (await run.result()).output == "Done."
    """

    def __init__(
        self, message: str, *, run_id: str, approval_id: str, action: Action, arguments: Mapping[str, Any]
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.approval_id = approval_id
        self.action = action
        self.tool = action.tool
        self.arguments = arguments


class AnswerNeeded(RunError):
    """A tool asks a question, and nobody is there to answer it.

    The tool waits as long as the agent is open: answer with `run.answer`, or pass `on_question=` to the
    agent. `question_id`, `question` and `choices` say what is asked.

    Example::

        from holdfast import Agent, AnswerNeeded, ToolContext
        from holdfast.testing import Call, Say, ScriptedModel

        async def paint(context: ToolContext) -> str:
            '''Paint the wall.'''
            return "painted it " + await context.ask("Which colour?")

        async with Agent(ScriptedModel([Call("paint"), Say("Done.")]), tools=[paint]) as agent:
            run = await agent.start("Paint the wall")
            try:
                await run.result()
            except AnswerNeeded as needed:
                assert needed.question == "Which colour?"
                await run.answer(needed.question_id, "blue")
            assert (await run.result()).output == "Done."
    """

    def __init__(
        self, message: str, *, run_id: str, question_id: str, question: str, choices: tuple[str, ...]
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.question_id = question_id
        self.question = question
        self.choices = choices
