"""A plan in words, for people and for the model."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from holdfast.values import PlanStep, PlanStepState

BOXES: Mapping[PlanStepState, str] = MappingProxyType(
    {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
)


def plan_text(steps: Iterable[PlanStep]) -> str:
    """The steps, one per line, each with its state."""
    return "\n".join(f"{BOXES[step.state]} {step.text}" for step in steps)


def steps_done(steps: tuple[PlanStep, ...]) -> str:
    """How far the work is."""
    return f"{sum(step.state == 'completed' for step in steps)} of {len(steps)} steps"
