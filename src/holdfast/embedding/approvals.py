"""Approvals in a program: the exact action is shown to a function, and its choice is logged.

Questions in a program: a function answers what a tool asks, and its answer is logged.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from holdfast.embedding.handlers import called
from holdfast.events import ApprovalAsked, QuestionAsked
from holdfast.policy.verdicts import Deny
from holdfast.runner.asks import ApprovalVerdict, QuestionAnswer
from holdfast.values import MODES, Action, Choice

if TYPE_CHECKING:
    from holdfast.host.runtime import Runner


_log = logging.getLogger(__name__)


class PendingApproval(Struct, frozen=True, kw_only=True):
    """What `on_approval` gets: one exact action that a run wants to do.

    `tool` is the name of the tool, `arguments` are those of the call, and `findings` say
    why you are asked. `action` describes it for people. Return True to allow it, False to deny it, or
    `Deny("…")` to tell the model why.

    Example::

        from holdfast import Agent, PendingApproval, Deny, tool
        from holdfast.testing import Call, Say, ScriptedModel

        @tool(needs_approval=True)
        async def pay(cents: int) -> str:
            '''Pay somebody.'''
            return "paid"

        async def decide(request: PendingApproval) -> bool | Deny:
            return True if request.arguments["cents"] < 100 else Deny("That is too much.")

        agent = Agent(ScriptedModel([Call("pay", cents=5), Say("Done.")]), tools=[pay], on_approval=decide)
        assert (await agent.run("Pay 5 cents")).output == "Done."
    """

    id: str
    run_id: str
    session_id: str
    tool: str
    arguments: Mapping[str, Any]
    action: Action
    findings: tuple[str, ...]


async def arguments_of(runner: "Runner", asked: ApprovalAsked, *, session_id: str) -> Mapping[str, object]:
    """A copy of the call's arguments, as they are on the log; what a program does to it changes nothing."""
    run = (await runner.inbox.state(session_id)).runs[asked.run_id]
    return deepcopy(run.tools[asked.tool_call_id].asked.args)


OnApproval: TypeAlias = Callable[[PendingApproval], bool | Deny | Awaitable[bool | Deny]]


async def decide(runner: "Runner", on_approval: OnApproval, *, session_id: str, asked: ApprovalAsked) -> None:
    """Ask the program, and put its verdict on the log; a program that fails has not agreed."""
    request = PendingApproval(
        id=asked.approval_id,
        run_id=asked.run_id,
        session_id=session_id,
        tool=asked.action.tool,
        arguments=await arguments_of(runner, asked, session_id=session_id),
        action=asked.action,
        findings=asked.findings,
    )
    choice: Choice = "deny"
    reason = ""
    try:
        verdict = await called(on_approval, request)
        if isinstance(verdict, Deny):
            reason = verdict.why
        elif verdict is True:
            choice = "once"
        elif verdict is not False:
            raise TypeError(f"on_approval returned {verdict!r}; return True, False or Deny(…).")
    except Exception as error:  # noqa: BLE001 - the handler is other people's code
        _log.exception("on_approval failed, so the action is denied")
        reason = f"the program couldn't decide ({type(error).__name__})"
    verdict_given = ApprovalVerdict(choice, by="on_approval", reason=reason, mode_max=MODES[-1])
    await runner.inbox.answer(asked.approval_id, verdict_given)


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
