"""The plan and the rounds of a goal in the terminal."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.cli.terminal.style import Style
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.plans.folds import steps_done
from holdfast.safe_text import safe_line
from holdfast.values import PlanStep, PlanStepState

if TYPE_CHECKING:
    from holdfast.cli.terminal.renderer import Renderer

MARKS: Mapping[PlanStepState, str] = MappingProxyType({"pending": "○", "in_progress": "◐", "completed": "●"})
LOOKS: Mapping[PlanStepState, str] = MappingProxyType(
    {"pending": "dim", "in_progress": "bold", "completed": "dim green"}
)


def _plan_text(style: Style, steps: tuple[PlanStep, ...]) -> str:
    """The plan, one step per line."""
    lines = [
        style.line(f"  {MARKS[step.state]} {safe_line(step.text)}", LOOKS[step.state], hang=4)
        for step in steps
    ]
    return "\n" + style.dim(f"plan: {steps_done(steps)}") + "".join(lines)


def _planned(renderer: "Renderer", event: PlanUpdated) -> str:
    """The plan stays in view while the run works on it."""
    renderer.pinned = partial(_plan_text, renderer.style, event.steps)
    renderer.is_planning = renderer.is_planning and not event.accepted
    return renderer.pinned() if event.accepted else ""


def _round_begun(renderer: "Renderer", event: GoalContinued) -> str:
    return renderer.notice(f"round {event.round}: the agent hasn't shown that it reached the goal")


STEPS: Mapping[type, Callable[["Renderer", Any], str]] = MappingProxyType(
    {PlanUpdated: _planned, GoalContinued: _round_begun}
)
