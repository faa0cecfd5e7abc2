"""Plans and goals in a run: the tools update_plan and finish_goal, plan mode, and the end of the run.

Goals: whether a run has proved that its goal is reached, and whether it continues.

The plan of the work and the end of a goal: described like any tool, but handled by the agent loop.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast import events as e
from holdfast.agent.policy import mode_in
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.plans.folds import is_planning, plan_state, plan_text, steps_done
from holdfast.folds.run import AskStatus, Run
from holdfast.interfaces.feature import (
    Continue,
    DeclaringRun,
    FeatureContext,
    InLoopTool,
    RunContext,
    RunHooks,
)
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import ASK_USER, FINISH_GOAL, PROPOSE_SKILL, REMEMBER, UPDATE_PLAN
from holdfast.policy.verdicts import Deny, deny_unattended
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.values import STEP_CHARS_MAX, STEPS_MAX, Action, Outcome, PlanStep, PlanStepState, RunSettings

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


ROUNDS_MAX = 50
TOLD = (
    "(The goal isn't shown to be reached yet, so go on working on it; this is round {round}. When it is "
    "reached, call finish_goal with quotations from results of your tools that show it. If you can't reach "
    "it without the user, call finish_goal with the outcome blocked.)"
)
ROUNDS_OVER = (
    f"The agent worked on the goal for {ROUNDS_MAX} rounds without showing that it is reached. Its work so "
    "far is kept: send another message to continue."
)
QUOTE_CHARS_MIN = 8  # a shorter quotation must be a whole line of the result
_SAYS_NOTHING = frozenset({ASK_USER, FINISH_GOAL, PROPOSE_SKILL, REMEMBER, UPDATE_PLAN})


BLOCKED = Outcome("completed", cause="goal_blocked")
OUT_OF_ROUNDS = Outcome("budget", cause="rounds", trace=(ROUNDS_OVER,))


def after_answer(run: Run, now_ms: int) -> Outcome | Continue | None:
    """Decide the next step when the model has answered without tool calls; None if the run may end."""
    if not run.settings.goal:
        return None
    outcomes = [
        call.asked.args.get("outcome")
        for call in run.tools.values()
        if call.own_tool == FINISH_GOAL and call.ended is not None and call.ended.ok
    ]
    if outcomes:
        return BLOCKED if outcomes[-1] == "blocked" else None
    nth = plan_state(run).goal_round + 1
    if nth > ROUNDS_MAX:
        return OUT_OF_ROUNDS
    told = TOLD.format(round=nth)
    return Continue((GoalContinued(at_ms=now_ms, run_id=run.run_id, round=nth, told=told),))


def missing_evidence(run: Run, outcome: str, evidence: Sequence[str]) -> str:
    """Why the evidence doesn't show that the goal is reached; empty if it does.

    A run that used no tools has nothing to quote, so its word counts.
    """
    results = list(_results(run))
    if outcome == "blocked" or not results:
        return ""
    if not evidence:
        return "Quote what shows that the goal is reached: exact words from a result of one of your tools."
    unseen = [quote for quote in evidence if not any(_is_quoted(quote, result) for result in results)]
    if not unseen:
        return ""
    quoted = unseen[0][:300]
    return f"No result of your tools in this run contains this quotation: {quoted!r}. Quote whole lines."


def _results(run: Run) -> Iterable[str]:
    for call in run.tools.values():
        if call.ended is not None and call.own_tool not in _SAYS_NOTHING:
            yield call.ended.result


def _is_quoted(quote: str, result: str) -> bool:
    words = _plain(quote)
    if len(words) >= QUOTE_CHARS_MIN:
        return words in _plain(result)
    # Nothing, or a single letter, is in any result.
    return bool(words) and words in {_plain(line) for line in result.splitlines()}


def _plain(text: str) -> str:
    return " ".join(text.split())


PLAN_FIRST = (
    "Plan mode: until the user accepts your plan, only tools that read can run. Look at what you need to "
    "know, then call update_plan with the steps that you propose. The user may change them. Only when the "
    "result says that the plan is accepted, carry it out."
)
GOAL = (
    "The user's message is a goal. Work on it by yourself, without waiting for the user, until it is "
    "reached. Check your results, and then call finish_goal with exact quotations from results of your tools "
    "that show that the goal is reached."
)
STILL_PLANNING = (
    "Not run: this is plan mode, and the user hasn't accepted a plan yet. Propose one with update_plan."
)
UPDATED = "The user sees the plan."
ACCEPTED = "The user accepted the plan. Carry it out, and keep it up to date with update_plan."
CHANGED = "The user changed the plan and accepted it. Carry it out as it is now:"
_HEADLINE = "Accept this plan?"


def mode_instructions(settings: RunSettings) -> str:
    """Return the instructions for the run's mode."""
    modes = [text for text, is_on in ((PLAN_FIRST, settings.plan_first), (GOAL, settings.goal)) if is_on]
    return "\n\n".join(modes)


class Plans:
    """The plan and the goal of one run."""

    def __init__(self, context: RunContext) -> None:
        self._view = context.view
        self._log = context.log
        self._people = context.asks
        self._judge = context.deps.judge

    async def update(self, asked: e.ToolAsked) -> ToolResult:
        """Store the plan; in plan mode or if a rule says to ask, only if a person accepts it."""
        steps = parsed(UpdatePlanArgs, asked.args).plan()
        run = self._view.run(self._log.run_id)
        known = plan_state(run).plan
        if known is not None and known.tool_call_id == asked.tool_call_id:
            return _accepted(known.steps, proposed=steps) if known.accepted else ToolResult(UPDATED)
        if not self._needs_acceptance(run) and self._people.earlier(asked.tool_call_id) is None:
            await self._put(asked, steps)
            return ToolResult(UPDATED)
        ask = await self._proposed(asked, steps)
        if isinstance(ask, ToolResult):
            return ask
        if (refused := _refused(ask)) is not None:
            return refused
        await self._put(asked, ask.steps or steps, accepted_by_person=ask)
        return _accepted(ask.steps or steps, proposed=steps)

    async def _proposed(self, asked: e.ToolAsked, steps: tuple[PlanStep, ...]) -> AskStatus | ToolResult:
        """Return the resolved approval of the plan, or a result if no one can approve."""
        ask = self._people.earlier(asked.tool_call_id)
        if ask is None:
            found = (steps_done(steps),)
            settings = self._view.run(self._log.run_id).settings
            judge = self._judge.in_mode(mode_in(self._judge, self._view.session, settings))
            verdict = deny_unattended(found) if settings.unattended else judge.for_a_person(found)
            if isinstance(verdict, Deny):
                return ToolResult(verdict.why, ok=False, ending=verdict.reason)
            digest = arguments_hash(UPDATE_PLAN, asked.args)
            action = Action(tool=UPDATE_PLAN, summary=plan_text(steps), digest=digest)
            verdict = type(verdict)((), headline=_HEADLINE)
            self._people.ask_about(asked.tool_call_id, action, verdict, choices=("once", "deny"))
            await self._view.flush(self._log)
            ask = self._people.earlier(asked.tool_call_id)
            assert ask is not None, "it was asked just now"
        return await self._people.resolved(ask)

    async def _put(
        self, asked: e.ToolAsked, steps: tuple[PlanStep, ...], *, accepted_by_person: AskStatus | None = None
    ) -> None:
        self._log.emit(
            PlanUpdated(
                at_ms=self._log.now_ms(),
                run_id=self._log.run_id,
                tool_call_id=asked.tool_call_id,
                steps=steps,
                accepted=accepted_by_person is not None,
            )
        )
        await self._view.flush(self._log)

    def _needs_acceptance(self, run: Run) -> bool:
        """Whether the plan ends plan mode: that of the run or, unless it's a sub-agent's, of the session."""
        session = self._view.session
        in_plan_mode = session.parent is None and mode_in(self._judge, session, run.settings) == "plan"
        in_plan_mode = in_plan_mode and run.settings.mode != "plan"  # it only reads, whatever is accepted
        return in_plan_mode or is_planning(run)

    async def finish(self, asked: e.ToolAsked) -> ToolResult:
        """Check the evidence that the goal is reached."""
        given = parsed(FinishGoalArgs, asked.args)
        run = self._view.run(self._log.run_id)
        if not run.settings.goal:
            return ToolResult("This run has no goal.", ok=False)
        missing = missing_evidence(run, given.outcome, given.evidence)
        if missing:
            return ToolResult(missing, ok=False)
        return ToolResult("Noted. Now tell the user the outcome in a few words.")


def _accepted(steps: tuple[PlanStep, ...], *, proposed: tuple[PlanStep, ...]) -> ToolResult:
    return ToolResult(ACCEPTED if steps == proposed else f"{CHANGED}\n{plan_text(steps)}")


def _refused(ask: AskStatus) -> ToolResult | None:
    """The result if the plan wasn't accepted."""
    if ask.state == "answered" and ask.answer != "deny":
        return None
    if ask.state == "answered":
        why = f" The user says: {ask.reason}" if ask.reason else ""
        text = (
            f"The user didn't accept the plan.{why} You can still only read. Change it and propose it again."
        )
        return ToolResult(text, ok=False, ending="denied")
    return ToolResult("No one accepted the plan in time.", ok=False, ending="expired")


def _only_reads(run: Run) -> str:
    return STILL_PLANNING if is_planning(run) else ""


def _declared_tools(now: DeclaringRun) -> Mapping[str, ToolSpec | None]:
    return {} if now.run.settings.goal and not is_planning(now.run) else {FINISH_GOAL: None}


def _tools(context: RunContext) -> Mapping[str, InLoopTool]:
    plans = Plans(context)
    return {UPDATE_PLAN: plans.update, FINISH_GOAL: plans.finish}


RUN = RunHooks(
    instructions=mode_instructions,
    only_reads=_only_reads,
    declared_tools=_declared_tools,
    tools=_tools,
    may_end=after_answer,
)
