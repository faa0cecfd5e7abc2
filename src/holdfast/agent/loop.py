"""The agent's loop: one run, turn by turn, from its input to its outcome."""

from dataclasses import dataclass
from typing import assert_never

from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.agent.view import SessionView
from holdfast.capabilities import Model, NoAnswer
from holdfast.context import context_for, history_instructions
from holdfast.messages import AskedTool, ModelRequest
from holdfast.values import Failure, OutcomeKind


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended; becomes its run.ended."""

    kind: OutcomeKind
    cause: str = ""
    failure: Failure | None = None
    trace: tuple[str, ...] = ()


async def run_agent(view: SessionView, log: RunLog, *, model: Model, instructions: str = "") -> Outcome:
    """Go on with the run from wherever its log stands until it has an outcome."""
    while True:
        await _take_steers(view, log)
        answer = await model.answer(
            _request(view, log.run_id, instructions), log, turn=view.run(log.run_id).turns
        )
        await view.settled(log)
        if isinstance(answer, NoAnswer):
            return _without_answer(answer)
        match answer.finish:
            case "tools":
                for asked in answer.tools:
                    _refuse_unknown(log, asked)
                await view.settled(log)
            case "stop":
                if not view.session.inbox.steers(log.run_id):
                    return Outcome("completed")
            case "length":
                return Outcome("truncated")
            case "refused":
                return Outcome("refused")
            case _:
                assert_never(answer.finish)


def _request(view: SessionView, run_id: str, instructions: str) -> ModelRequest:
    settings = view.run(run_id).settings
    said = (instructions, settings.instructions, history_instructions(view.transcript, run_id))
    return ModelRequest(
        messages=context_for(view.transcript, run_id),
        instructions="\n\n".join(text for text in said if text),
        cache_key=view.session.epoch,
    )


async def _take_steers(view: SessionView, log: RunLog) -> None:
    """What people said meanwhile becomes part of the conversation now, at the next call."""
    steers = view.session.inbox.steers(log.run_id)
    for message in steers:
        log.emit(e.MessageDispatched(at_ms=log.now_ms(), run_id=log.run_id, message_id=message.message_id))
    if steers:
        await view.settled(log)


def _without_answer(answer: NoAnswer) -> Outcome:
    if answer.failure.kind == "content_refused":
        return Outcome("refused", failure=answer.failure, trace=answer.trace)
    return Outcome("failed", cause=answer.failure.kind, failure=answer.failure, trace=answer.trace)


def _refuse_unknown(log: RunLog, asked: AskedTool) -> None:
    log.emit(
        e.ToolEnded(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            tool_call_id=asked.tool_call_id,
            ok=False,
            ending="not_started",
            result=f"There is no tool {asked.name!r}.",
        )
    )
