"""The agent loop: one run, turn by turn, from its input to its outcome.

The next step depends only on the log, so after a crash the loop continues as if there had been none.
"""

import asyncio

from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.asks import Asks
from holdfast.agent.attachments import Attachments
from holdfast.agent.budgets import BudgetPart, RunLimits, run_until
from holdfast.agent.calls import ToolCalls
from holdfast.agent.children import Children
from holdfast.agent.compaction import NEAR, compact, compact_all, compact_overflow
from holdfast.agent.deps import AgentDeps
from holdfast.agent.output import OutputCheck
from holdfast.agent.run_hooks import begin, ending, may_end
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.agent.system_context import CallContext, opening
from holdfast.agent.tool_set import declared_to, tool_facts, usable
from holdfast.catalog import absent_feature
from holdfast.folds.run import Run
from holdfast.interfaces.feature import Continue, RunContext
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.interfaces.workspace_paths import WorkspaceMoved
from holdfast.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ToolSpec,
)
from holdfast.policy.tool_names import MCP_PREFIX, SHELL
from holdfast.racing import race
from holdfast.tools.registry import Registry
from holdfast.values import COMMAND_CALL, OUTPUT_INVALID, Failure, Outcome

CONTINUATIONS_MAX = 3
MCP_TOOLS = "descriptions of the tools of MCP servers"
CONTINUE = "(Your answer was cut off. Continue exactly where it stopped.)"
SHORTER = (
    "(The length limit was reached before anything of your answer could be used. Think less, "
    "answer more briefly, and make tool calls with shorter arguments.)"
)


async def run_agent(view: SharedFold, log: RunLog, deps: AgentDeps) -> Outcome:
    """Continue the run from the current state of its log until it has an outcome."""
    reading = asyncio.create_task(opening(view, log, deps))
    try:
        await view.flush(log)  # the start of the run, or its resumption
        opened = await reading
    except WorkspaceMoved as moved:
        return _elsewhere(moved)
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait({reading})
    run = view.run(log.run_id)
    if (absent := absent_feature(run.settings)) is not None:
        return _without_feature(absent[1])
    hooks = RunContext(view, log, Asks(view, log, deps), deps)
    if (refused := await begin(hooks)) is not None:
        return refused
    limits = RunLimits.of(run, deps)
    if run.settings.purpose == "compaction":
        turns = _compaction(view, log, deps)
    elif run.settings.purpose == "command":
        turns = _command(view, log, deps)
    else:
        _note_sources(view, log, opened.sources)
        turns = _turns(view, log, deps=deps, limits=limits, context=CallContext(view, log, deps, opened))
    if not limits.budget.minutes:
        outcome = await turns
    else:
        outcome = await run_until(turns, limits.minutes_over(view, deps.clock)) or _spent(limits, "minutes")
    await ending(hooks, outcome)
    return outcome


async def _turns(
    view: SharedFold, log: RunLog, *, deps: AgentDeps, limits: RunLimits, context: CallContext
) -> Outcome:
    run = limits.run
    calls: ToolCalls | None = None  # made when they are needed: many runs have none
    tools: Registry | None = None  # those last offered to the model
    check = OutputCheck(view, log)
    attachments = Attachments(view, log, deps)
    continuations = 0
    while True:
        if _has_calls(run, view):
            calls = calls or ToolCalls(view, log, deps)
            calls.tools = tools or calls.tools
            if run.unfinished_tools and not await calls.finish_open_calls():
                return Outcome("cancelled", cause="approval_expired")
            await Children(log.session_id, view, deps).wait_at_the_end(run)
        steered = await _take_steers(view, log)
        outcome = _finished(view, run, steered=steered, deps=deps)
        if outcome is not None and (checked := await _checked(outcome, check)) is not None:
            return checked
        messages = await attachments.context()
        added = check.correction()
        if ask := _continuation(run, messages[-1], steered=steered):
            is_limited = run.finish == "length" and not steered and run.settings.max_output_tokens
            if continuations == CONTINUATIONS_MAX or is_limited:
                return Outcome("truncated", cause="length")
            continuations += 1
        if (used_up := limits.used_up()) is not None:
            return _spent(limits, used_up)
        await deps.drain.checkpoint(log.run_id)
        tools = usable(view, run, deps, session_id=log.session_id)
        request = await _request(context, tools, messages=messages, ask=ask, added=added)
        tokens = request.input_tokens
        window = deps.window_of(run.settings.model)
        if tokens > NEAR * window and await compact(view, log, deps, tokens=tokens):
            continue
        answer = await _answer(view, log, request=request, added=added, deps=deps)
        if (outcome := _outcome_of(answer, view, run)) is not None:
            return outcome
        await view.flush(log)


def _continuation(run: Run, last: Message, *, steered: bool) -> str:
    """Return the request to continue half an answer, or to give a shorter one; empty if neither is needed."""
    # A crash or a summary may come between half an answer and its continuation.
    if isinstance(last, AssistantMessage):
        return CONTINUE
    return SHORTER if run.finish == "length" and not steered else ""


def _has_calls(run: Run, view: SharedFold) -> bool:
    """Whether the run has tool calls to finish, or sub-agents to wait for."""
    return bool(run.unfinished_tools or view.session.parent)


def _note_sources(view: SharedFold, log: RunLog, sources: tuple[str, ...]) -> None:
    """Write down what the model is shown besides the conversation, before it is shown."""
    known = view.transcript.runs[log.run_id].sources
    if new := tuple(one for one in sources if one not in known):
        log.emit(e.ContextRead(at_ms=log.now_ms(), run_id=log.run_id, sources=new))


async def _compaction(view: SharedFold, log: RunLog, deps: AgentDeps) -> Outcome:
    """A run that a person started to summarize the conversation."""
    await deps.drain.checkpoint(log.run_id)
    missing = await compact_all(view, log, deps)
    return Outcome("completed") if missing is None else _without_answer(missing)


async def _command(view: SharedFold, log: RunLog, deps: AgentDeps) -> Outcome:
    """A run of a command that a person typed: judged and recorded like a call of the model."""
    run = view.run(log.run_id)
    if not run.tools:
        log.emit(
            e.ToolAsked(
                at_ms=log.now_ms(),
                run_id=log.run_id,
                tool_call_id=COMMAND_CALL + log.run_id,
                name=SHELL,
                args={"command": run.settings.command},
            )
        )
        await view.flush(log)
    if run.unfinished_tools and not await ToolCalls(view, log, deps).finish_open_calls():
        return Outcome("cancelled", cause="approval_expired")
    return Outcome("completed")


def _outcome_of(answer: Answer | NoAnswer | None, view: SharedFold, run: Run) -> Outcome | None:
    """The outcome, if it follows from the answer alone, before that is on the log."""
    if isinstance(answer, NoAnswer):
        return _without_answer(answer)
    is_last = (
        answer is not None
        and answer.finish == "stop"
        and bool(answer.text.strip())
        and run.answers
        and not (run.tools or run.settings.output or view.session.parent)
        and not view.session.inbox.steers(run.run_id)
        and may_end(run, run.updated_ms) is None
    )
    return Outcome("completed") if is_last else None


def _finished(view: SharedFold, run: Run, *, steered: bool, deps: AgentDeps) -> Outcome | None:
    """The outcome, if the model has finished and no tool call or person wants more."""
    if run.finish == "too_long" and not steered:
        return _too_long(deps.answer_bytes_max)
    if run.finish not in {"stop", "refused"}:
        return None
    if not isinstance(view.context(run.run_id)[-1], AssistantMessage):
        return None
    return Outcome("refused" if run.finish == "refused" else "completed")


async def _checked(outcome: Outcome, check: OutputCheck) -> Outcome | None:
    """The outcome; None if the model is to correct its answer, or to go on because a feature wants it."""
    if outcome.kind == "completed":
        match may_end(check.view.run(check.log.run_id), check.log.now_ms()):
            case Continue(events):
                for event in events:
                    check.log.emit(event)
                await check.view.flush(check.log)
                return None
            case None:
                pass
            case other:
                return other
        if (failure := await check.failure()) is not None:
            return Outcome("failed", cause=OUTPUT_INVALID, failure=failure)
    return None if check.correction() else outcome


async def _answer(
    view: SharedFold, log: RunLog, *, request: ModelRequest, added: tuple[Message, ...], deps: AgentDeps
) -> Answer | NoAnswer | None:
    """The model's answer; None if a person redirected the run meanwhile, in which case its text stays.

    `added` is at the end of the request and not in the log.
    """
    turn = view.run(log.run_id).turns

    async def shorter() -> ModelRequest | None:
        if not await compact_overflow(view, log, deps, tokens=request.input_tokens):
            return None
        return replace(request, messages=view.context(log.run_id) + added)

    answering = deps.model.answer(request, log, turn=turn, compact=shorter)
    calling = asyncio.create_task(answering, name=f"call of {log.run_id}")
    redirected = view.when(lambda: _redirects(view, log.run_id))
    # A stop gives a reason for the cancellation; a shutdown doesn't.
    await race(calling, redirected, cause="redirected", cause_of_stop="shutdown")
    if not redirected.cancelled():
        redirected.result()  # raises if the log can't be followed
    answer = None if calling.cancelled() else calling.result()
    finish = "redirected" if answer is None else answer.finish if isinstance(answer, Answer) else "failed"
    call_id = answer.call_id if answer is not None else view.run(log.run_id).call_id
    log.emit(e.CallEnded(at_ms=log.now_ms(), run_id=log.run_id, call_id=call_id, finish=finish))
    log.resumed = log.resumed and not isinstance(answer, Answer)
    return answer


def _redirects(view: SharedFold, run_id: str) -> bool:
    return any(message.mode == "redirect" for message in view.session.inbox.steers(run_id))


async def _request(
    context: CallContext,
    tools: Registry,
    *,
    messages: tuple[Message, ...],
    ask: str,
    added: tuple[Message, ...],
) -> ModelRequest:
    """Build the next request, and record what it shows the model besides the conversation."""
    view, log = context.view, context.log
    run = view.run(log.run_id)
    _note_sources(view, log, (MCP_TOOLS,) if tools.has_any_of(MCP_PREFIX) else ())
    own = declared_to(run, view, tools, context.deps)
    specs = (*own.specs, *_client_specs(run))
    instructions = await context.current(run, specs, facts=tool_facts(own, tools))
    if await context.note(run, ask):
        messages = view.context(log.run_id)
    return ModelRequest(
        messages=messages + added,
        model=run.settings.model,
        instructions=instructions,
        tools=specs,
        client_tools=frozenset(tool.name for tool in run.client_tools),
        tool_choice="" if run.tool_choice == "none" else run.tool_choice,
        call_tool=own.call_tool,
        max_output_tokens=run.settings.max_output_tokens or None,
        answer_bytes_max=context.deps.answer_bytes_max,
        temperature=run.settings.temperature,
        reasoning_effort=run.settings.reasoning_effort,
        output=run.settings.output,
        sampling=run.settings.sampling,
        cache_key=view.session.epoch,
        # After a summary they are in no message, but asks and effects are identified by them.
        spent_tool_ids=frozenset(run.tools),
    )


def _client_specs(run: Run) -> list[ToolSpec]:
    """The tools that the client brought, unless it wants none of them called now."""
    if not run.client_tools or run.tool_choice == "none":
        return []
    return [ToolSpec(tool.name, tool.description, tool.schema) for tool in run.client_tools]


async def _take_steers(view: SharedFold, log: RunLog) -> bool:
    """Add what people said meanwhile to the conversation, before the next call."""
    steers = view.session.inbox.steers(log.run_id)
    for message in steers:
        log.emit(e.MessageDispatched(at_ms=log.now_ms(), run_id=log.run_id, message_id=message.message_id))
    if steers:
        await view.flush(log)
    return bool(steers)


def _too_long(bytes_max: int) -> Outcome:
    text = (
        f"The model's answer was longer than {bytes_max / 1_000_000:g} MB and was cut off there. "
        "The setting agent.answer_bytes_max says how long an answer may be."
    )
    failure = Failure(kind="truncated", text=text, rule="answer_bytes_max")
    return Outcome("truncated", cause="answer_bytes_max", failure=failure)


def _elsewhere(moved: WorkspaceMoved) -> Outcome:
    hint = "Send the message again, with the folder that you mean as the workspace."
    failure = Failure(kind="bad_request", text=str(moved), rule="workspace_moved", hint=hint)
    return Outcome("failed", cause="workspace_moved", failure=failure)


def _without_feature(why: str) -> Outcome:
    hint = "Start a server that has this feature, and send the message again."
    failure = Failure(kind="bad_request", text=f"{why}.", rule="absent_feature", hint=hint)
    return Outcome("failed", cause="absent_feature", failure=failure)


def _spent(limits: RunLimits, part: BudgetPart) -> Outcome:
    return Outcome("budget", cause=part, trace=(limits.sentence(part),))


def _without_answer(answer: NoAnswer) -> Outcome:
    if answer.failure.kind == "content_refused":
        return Outcome("refused", failure=answer.failure, trace=answer.trace)
    return Outcome("failed", cause=answer.failure.kind, failure=answer.failure, trace=answer.trace)
