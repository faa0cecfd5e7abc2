"""What happens to the plan and the goal of a run."""

from holdfast.events.bases import RunEvent
from holdfast.values import PlanStep


class PlanUpdated(RunEvent, frozen=True, kw_only=True, tag="plan.updated"):
    """The agent's plan for the work; the newest one counts. `accepted`: a person accepted it in plan mode."""

    tool_call_id: str
    steps: tuple[PlanStep, ...]
    accepted: bool = False


class GoalContinued(RunEvent, frozen=True, kw_only=True, tag="goal.continued"):
    """The model stopped before it showed that the goal is reached, so the run goes on.

    `told` is what the model is told; `round` counts from 2, because the first round needs no such event.
    """

    round: int
    told: str
