"""Goals: whether a run has proved that its goal is reached, and whether it continues."""

from collections.abc import Iterable, Sequence

from holdfast.features.plans.events import GoalContinued
from holdfast.features.plans.folds import plan_state
from holdfast.folds.run import Run
from holdfast.interfaces.feature import Continue
from holdfast.policy.tool_names import ASK_USER, FINISH_GOAL, PROPOSE_SKILL, REMEMBER, UPDATE_PLAN
from holdfast.values import Outcome

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
