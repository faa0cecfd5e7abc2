"""Events about the plan and the goal of a run."""

from holdfast.events.bases import Event, RunEvent
from holdfast.values import PlanStep


class PlanUpdated(RunEvent, frozen=True, kw_only=True, tag="plan.updated"):
    """The agent's current plan. `accepted` means that a person accepted it in plan mode."""

    tool_call_id: str
    steps: tuple[PlanStep, ...]
    accepted: bool = False


class GoalContinued(RunEvent, frozen=True, kw_only=True, tag="goal.continued"):
    """The model stopped without proof that the goal is reached, so the run continues.

    `told` is the prompt for the model. `round` starts at 2, because the first round has no such event.
    """

    round: int
    told: str


EVENTS: tuple[type[Event], ...] = (PlanUpdated, GoalContinued)
