"""The plan and the goal of a run in the folds, and a plan in words, for people and for the model."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from holdfast.events import Event
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.folds.entries import Notice
from holdfast.interfaces.feature import FoldHooks
from holdfast.values import PlanStep, PlanStepState

if TYPE_CHECKING:
    from holdfast.folds.run import Run
    from holdfast.folds.run_view import RunView

PLAN_MARK = "[Your plan at that point:]"
BOXES: Mapping[PlanStepState, str] = MappingProxyType(
    {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
)


class PlanState(NamedTuple):
    """The newest plan of a run, whether a person accepted one, and the round of work on its goal."""

    plan: PlanUpdated | None = None
    is_accepted: bool = False
    goal_round: int = 1


_NOTHING = PlanState()


def plan_state(run: "Run") -> PlanState:
    """Return the run's plan and goal."""
    return run.features.get("plans", _NOTHING)


def is_planning(run: "Run") -> bool:
    """Return whether the run may only read, because its plan isn't accepted yet."""
    return run.settings.plan_first and not plan_state(run).is_accepted


def plan_text(steps: Iterable[PlanStep]) -> str:
    """The steps, one per line, each with its state."""
    return "\n".join(f"{BOXES[step.state]} {step.text}" for step in steps)


def steps_done(steps: tuple[PlanStep, ...]) -> str:
    """How far the work is."""
    return f"{sum(step.state == 'completed' for step in steps)} of {len(steps)} steps"


def _plan_updated(run: "Run", event: PlanUpdated) -> None:
    known = plan_state(run)
    run.features["plans"] = known._replace(plan=event, is_accepted=known.is_accepted or event.accepted)
    run.resumptions_without_progress = 0


def _goal_continued(run: "Run", event: GoalContinued) -> None:
    run.features["plans"] = plan_state(run)._replace(goal_round=event.round)


def _round_begun(run: "RunView", seq: int, event: GoalContinued) -> Notice:
    text = f"Round {event.round}: the goal isn't shown to be reached yet, so the agent goes on."
    return Notice(seq=seq, at_ms=event.at_ms, run_id=run.run_id, notice="goal", text=text, summary=event.told)


def _newest_plan(kept: Sequence[Event]) -> str:
    plans = [event for event in kept if isinstance(event, PlanUpdated)]
    return f"{PLAN_MARK}\n{plan_text(plans[-1].steps)}" if plans else ""


def _timeline_text(event: PlanUpdated) -> str:
    return steps_done(event.steps) + (", accepted" if event.accepted else "")


FOLDS = FoldHooks(
    run={PlanUpdated: _plan_updated, GoalContinued: _goal_continued},
    view={GoalContinued: _round_begun},
    kept=(PlanUpdated,),
    after_summary=_newest_plan,
    run_fields=lambda run: {"is_planning": is_planning(run)},
    timeline={PlanUpdated: _timeline_text, GoalContinued: lambda event: f"round {event.round}"},
)
