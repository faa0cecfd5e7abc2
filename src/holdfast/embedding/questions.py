"""Questions in a program: a function answers what a tool asks, and its answer is logged."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from holdfast.embedding.handlers import called
from holdfast.events import QuestionAsked
from holdfast.policy.verdicts import Deny
from holdfast.runner.asks import QuestionAnswer

if TYPE_CHECKING:
    from holdfast.host.runtime import Runner

_log = logging.getLogger(__name__)


class PendingQuestion(Struct, frozen=True, kw_only=True):
    """What `on_question` gets: a question that a tool asks with `ToolContext.ask`.

    Return the answer, or `Deny("…")` if there is none: then the tool gets `NobodyAnswered`.

    Example::

        from holdfast import Agent, Deny, PendingQuestion, ToolContext
        from holdfast.testing import Call, Say, ScriptedModel

        async def paint(context: ToolContext) -> str:
            '''Paint the wall.'''
            return "painted it " + await context.ask("Which colour?", choices=("red", "blue"))

        async def answer(question: PendingQuestion) -> str | Deny:
            return "blue" if "blue" in question.choices else Deny("Ask me tomorrow.")

        agent = Agent(ScriptedModel([Call("paint"), Say("Done.")]), tools=[paint], on_question=answer)
        assert (await agent.run("Paint the wall")).output == "Done."
    """

    id: str
    run_id: str
    session_id: str
    text: str
    choices: tuple[str, ...]


OnQuestion: TypeAlias = Callable[[PendingQuestion], str | Deny | Awaitable[str | Deny]]


async def answer(runner: "Runner", on_question: OnQuestion, *, session_id: str, asked: QuestionAsked) -> None:
    """Ask the program, and put its answer on the log; a program that fails hasn't answered."""
    question = PendingQuestion(
        id=asked.question_id,
        run_id=asked.run_id,
        session_id=session_id,
        text=asked.text,
        choices=asked.choices,
    )
    said, reason = "", ""
    try:
        given = await called(on_question, question)
        if isinstance(given, Deny):
            reason = given.why
        elif isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
            said = given
        else:
            raise TypeError(f"on_question returned {given!r}; return a text or Deny(…).")
    except Exception as error:  # noqa: BLE001 - the handler is other people's code
        _log.exception("on_question failed, so the question has no answer")
        reason = f"the program couldn't answer ({type(error).__name__})"
    await runner.inbox.answer(asked.question_id, QuestionAnswer(said, by="on_question", reason=reason))
