"""The run hooks of all features, gathered from the catalog once."""

from collections.abc import Sequence

from holdfast.catalog import FEATURES
from holdfast.events import ToolAsked
from holdfast.folds.run import Run
from holdfast.interfaces.feature import (
    ContextReader,
    ContextRequest,
    Continue,
    DeclaringRun,
    FileEdit,
    InLoopTool,
    RecordedTool,
    RunContext,
    RunHooks,
)
from holdfast.interfaces.tool import ToolResult
from holdfast.messages import Message, ToolSpec
from holdfast.values import Outcome, RunSettings, ToolEnding

_HOOKS: tuple[RunHooks, ...] = tuple(one.part(one.run) for one in FEATURES.values() if one.run)
_INSTRUCTIONS = tuple(hooks.instructions for hooks in _HOOKS if hooks.instructions)
_CONTEXT = tuple(hooks.context for hooks in _HOOKS if hooks.context)
_ONLY_READS = tuple(hooks.only_reads for hooks in _HOOKS if hooks.only_reads)
_DECLARED_TOOLS = tuple(hooks.declared_tools for hooks in _HOOKS if hooks.declared_tools)
_ATTACHMENTS = tuple(hooks.attachments for hooks in _HOOKS if hooks.attachments)
_TOOLS = tuple(hooks.tools for hooks in _HOOKS if hooks.tools)
_RECORDED_TOOLS = tuple(hooks.recorded_tools for hooks in _HOOKS if hooks.recorded_tools)
_BEGIN = tuple(hooks.begin for hooks in _HOOKS if hooks.begin)
_NARROW = tuple(hooks.narrow for hooks in _HOOKS if hooks.narrow)
_AFTER_RESULT = tuple(hooks.after_result for hooks in _HOOKS if hooks.after_result)
_ENDING = tuple(hooks.ending for hooks in _HOOKS if hooks.ending)
_BEFORE_CHANGE = tuple(hooks.before_change for hooks in _HOOKS if hooks.before_change)
_AFTER_TURN = tuple(hooks.after_turn for hooks in _HOOKS if hooks.after_turn)
_MAY_END = tuple(hooks.may_end for hooks in _HOOKS if hooks.may_end)
_NOT_BEGUN: frozenset[ToolEnding] = frozenset({"not_started", "denied", "expired", "no_approver"})


def feature_instructions(settings: RunSettings) -> str:
    """Return the instructions of all features for the model."""
    return "\n\n".join([text for instructions in _INSTRUCTIONS if (text := instructions(settings))])


async def context_readers(request: ContextRequest) -> tuple[ContextReader, ...]:
    """Return the readers of all features' context, in catalog order."""
    return tuple([reader for context in _CONTEXT if (reader := await context(request)) is not None])


def only_reads(run: Run) -> str:
    """Return why the run may use only read-only tools; empty if it may use all."""
    for why in _ONLY_READS:
        if text := why(run):
            return text
    return ""


def declared_tools(run: DeclaringRun) -> dict[str, ToolSpec | None]:
    """Return how feature tools are declared to the run's model now; None for one that isn't."""
    specs: dict[str, ToolSpec | None] = {}
    for declared in _DECLARED_TOOLS:
        specs.update(declared(run))
    return specs


async def attachments(context: RunContext, messages: Sequence[Message]) -> bool:
    """Let the features record texts about the attachments of these messages. Return whether one did."""
    return any([await record(context, messages) for record in _ATTACHMENTS])


def in_loop_tools(context: RunContext) -> dict[str, InLoopTool]:
    """Return the feature tools that the agent loop carries out, by name."""
    return {name: tool for tools in _TOOLS for name, tool in tools(context).items()}


def recorded_tools(context: RunContext) -> dict[str, RecordedTool]:
    """Return the feature tools that use the log, and are judged and recorded like any other call."""
    return {name: tool for tools in _RECORDED_TOOLS for name, tool in tools(context).items()}


async def begin(context: RunContext) -> Outcome | None:
    """Let the features prepare the run. Return the outcome of the first that ends it; None if it may work."""
    for prepare in _BEGIN:
        if (outcome := await prepare(context)) is not None:
            return outcome
    return None


async def narrow(context: RunContext, asked: ToolAsked) -> ToolResult | None:
    """Return the result of an allowed tool call that a feature denies; None if none does."""
    for decide in _NARROW:
        if why := await decide(context, asked):
            return ToolResult(why, ok=False, ending="denied")
    return None


async def after_result(context: RunContext, asked: ToolAsked, result: ToolResult) -> None:
    """Let the features act on the result of a tool call, if that began."""
    if result.ending in _NOT_BEGUN:
        return
    for act in _AFTER_RESULT:
        await act(context, asked, result)


async def ending(context: RunContext, outcome: Outcome, *, seconds: float | None = None) -> None:
    """Let the features act on the run's outcome; if it's final, within `seconds`."""
    for act in _ENDING:
        await act(context, outcome, seconds)


async def before_change(context: RunContext, edit: FileEdit | None = None) -> bool:
    """Let the features prepare for a change. Return whether one of them can undo it."""
    return any([await prepare(context, edit) for prepare in _BEFORE_CHANGE])


async def after_turn(context: RunContext, *, seconds: float | None = None) -> None:
    """Let the features record what the turn changed; at the end of the run, within `seconds`."""
    for record in _AFTER_TURN:
        await record(context, seconds)


def may_end(run: Run, now_ms: int) -> Outcome | Continue | None:
    """Return the decision of the first feature that objects to the end of the run; None if it may end."""
    for decide in _MAY_END:
        if (wanted := decide(run, now_ms)) is not None:
            return wanted
    return None
