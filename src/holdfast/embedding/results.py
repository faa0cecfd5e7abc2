"""The result of a run, or the error that says why there is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from holdfast.embedding import errors
from holdfast.folds.run import Run, Tally
from holdfast.values import OUTPUT_INVALID, OutcomeKind

if TYPE_CHECKING:
    from holdfast.events import Event
    from holdfast.messages import Message

OutputT = TypeVar("OutputT", default=str)
OutputT_co = TypeVar("OutputT_co", default=str, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[OutputT_co]):
    """What a completed run brought.

    `output` is the answer: a text, or a value of the `output_type` that you asked for. `usage` counts tokens
    and dollars, `messages` is the conversation as the model saw it, and `events` is the run's whole log.

    Example::

        from holdfast import Agent
        from holdfast.testing import Say, ScriptedModel

        result = await Agent(ScriptedModel([Say("5")])).run("What is 2 + 3?")
        assert result.output == "5" and result.outcome == "completed"
        print(result.usage.input_tokens, result.usage.cost_usd, result.run_id, result.session_id)
    """

    output: OutputT_co
    usage: Tally
    run_id: str
    session_id: str
    messages: "tuple[Message, ...]" = field(repr=False)  # a notebook shows what a cell ends with
    events: "tuple[Event, ...]" = field(repr=False)
    outcome: "OutcomeKind"


def error_of(run: Run, partial: str) -> errors.RunError:
    """The error for a run that did not complete."""
    if run.cause == OUTPUT_INVALID:
        return errors.OutputInvalid(_reason(run), run_id=run.run_id, partial=partial)
    kind = _ERRORS.get(run.outcome or "failed")
    if kind is None:
        return errors.RunFailed(_reason(run), run_id=run.run_id, partial=partial, failure=run.failure)
    return kind(_reason(run), run_id=run.run_id, partial=partial)


_ERRORS: Mapping[OutcomeKind, Callable[..., errors.RunError]] = MappingProxyType(
    {
        "refused": errors.RunRefused,
        "truncated": errors.RunTruncated,
        "budget": errors.BudgetExceeded,
        "cancelled": errors.RunCancelled,
    }
)
_SENTENCES: Mapping[OutcomeKind, str] = MappingProxyType(
    {
        "refused": "The model refused to answer. Ask differently, or ask another model.",
        "truncated": "The answer was cut off at a length limit. Ask for less, or allow a longer answer.",
        "cancelled": "The run was stopped. Run it again if you still want an answer.",
        "interrupted": "The run was interrupted and can't continue. Run it again.",
        "failed": "The run failed.",
    }
)


def _reason(run: Run) -> str:
    """One line for people: what happened, and what to do."""
    if run.failure is not None:
        return " ".join(filter(None, (run.failure.text, run.failure.hint)))
    if run.outcome == "budget":
        return _over_budget(run)
    said = _SENTENCES.get(run.outcome or "failed", _SENTENCES["failed"])
    return " ".join(filter(None, (*run.trace[-1:], said)))


def _over_budget(run: Run) -> str:
    """Which limit it was, and which argument sets it."""
    part = run.cause
    happened = next(iter(run.trace[-1:]), "The run used up its budget.").partition(". ")[0].rstrip(".")
    return (
        f"{happened}. Its work so far is kept: run the agent again with the same session= to continue, or "
        f"allow more with budget=Budget({part}=…)."
    )
