"""The plan of the work and the end of a goal: described like any tool, but handled by the agent loop."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.features.plans.folds import plan_text, steps_done
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import FINISH_GOAL, UPDATE_PLAN
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.values import STEP_CHARS_MAX, STEPS_MAX, Action, PlanStep, PlanStepState

_NO_LOOP = "This only works inside an agent run."


class PlanStepArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    text: Annotated[str, Meta(min_length=1, max_length=STEP_CHARS_MAX)]
    state: PlanStepState = "pending"


class UpdatePlanArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole plan, as it is now."""

    steps: Annotated[
        tuple[PlanStepArgs, ...],
        Meta(min_length=1, max_length=STEPS_MAX, description="All, including completed ones."),
    ]

    def plan(self) -> tuple[PlanStep, ...]:
        """The steps as events have them."""
        return tuple(PlanStep(text=step.text, state=step.state) for step in self.steps)


class FinishGoalArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the work on the goal ended."""

    outcome: Annotated[
        Literal["reached", "blocked"],
        Meta(description="reached, or blocked if you need the user to reach it."),
    ]
    summary: Annotated[
        str, Meta(min_length=1, max_length=2_000, description="What you did, or what blocks you.")
    ]
    evidence: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=2_000)], ...],
        Meta(
            max_length=20,
            description="Exact quotes from your tool results in this run that prove it.",
        ),
    ] = ()


class UpdatePlan(Tool):
    """Describes the plan to the model; the agent loop turns a call into plan.updated."""

    args_type = UpdatePlanArgs
    spec = spec_of(
        UPDATE_PLAN,
        "Show the user your plan for multi-step work, and keep it up to date, with one step in_progress.",
        args=UpdatePlanArgs,
    )
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        steps = parsed(UpdatePlanArgs, args).plan()
        digest = arguments_hash(UPDATE_PLAN, args)
        return Action(
            tool=UPDATE_PLAN, summary=f"Plan: {steps_done(steps)}\n{plan_text(steps)}", digest=digest
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult(_NO_LOOP, ok=False)


class FinishGoal(Tool):
    """Describes the end of a goal to the model; the agent loop checks the evidence."""

    args_type = FinishGoalArgs
    spec = spec_of(
        FINISH_GOAL,
        "Report that the goal is reached, with evidence, or that you can't reach it. The evidence is "
        "checked: each quote must occur in one of your tool results.",
        args=FinishGoalArgs,
    )
    traits = ToolTraits(read_only=True, place="anywhere")

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(FinishGoalArgs, args)
        return Action(tool=FINISH_GOAL, summary=given.summary[:300], digest=arguments_hash(FINISH_GOAL, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        return ToolResult(_NO_LOOP, ok=False)


def tools(_: FeatureContext) -> Sequence[Tool]:
    """Return the tools of plans and goals."""
    return UpdatePlan(), FinishGoal()
