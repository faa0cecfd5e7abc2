"""When a run that has a goal is finished, and which evidence counts."""

import pytest

from holdfast import events as e
from holdfast.features.plans.events import GoalContinued
from holdfast.features.plans.run import (
    BLOCKED,
    OUT_OF_ROUNDS,
    ROUNDS_MAX,
    TOLD,
    after_answer,
    missing_evidence,
)
from holdfast.folds.run import Run
from holdfast.folds.session import fold
from holdfast.interfaces.feature import Continue
from holdfast.values import Outcome, RunSettings
from scene import Scene


def run_with(*results: tuple[str, str], goal: bool = True, rounds: int = 1, ends: str = "") -> Run:
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="reach it")
    scene.put(e.RunQueued, run_id="r1", message_id="m1", settings=RunSettings(goal=goal))
    scene.begin("r1")
    scene.call()
    for nth, (name, result) in enumerate(results):
        scene.asks_tool(f"t{nth}", name)
        scene.ends_tool(f"t{nth}", result)
    if rounds > 1:
        scene.of_run(GoalContinued, round=rounds, told="")
    if ends:
        scene.asks_tool("bad", "finish_goal", outcome="reached")
        scene.ends_tool("bad", "no evidence", ok=False)
        scene.asks_tool("end", "finish_goal", outcome=ends)
        scene.ends_tool("end", "noted")
    return fold(scene.log).runs["r1"]


def round_of(nth: int) -> Continue:
    return Continue((GoalContinued(at_ms=7, run_id="r1", round=nth, told=TOLD.format(round=nth)),))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (run_with(goal=False), None),
        (run_with(), round_of(2)),
        (run_with(rounds=ROUNDS_MAX - 1), round_of(ROUNDS_MAX)),
        (run_with(rounds=ROUNDS_MAX), OUT_OF_ROUNDS),
        (run_with(ends="reached"), None),
        (run_with(ends="blocked"), BLOCKED),
    ],
)
def test_a_goal_goes_on_until_its_end_is_shown_or_its_rounds_are_over(
    run: Run, expected: Outcome | Continue | None
) -> None:
    assert after_answer(run, 7) == expected


def test_evidence_is_quoted_from_results_of_tools_and_nothing_else() -> None:
    run = run_with(("shell", "3  passed\nin 2 s"), ("update_plan", "all done"))
    assert missing_evidence(run, "reached", ["3 passed in"]) == ""
    assert "Quote what shows" in missing_evidence(run, "reached", [])
    assert "'all done'" in missing_evidence(run, "reached", ["3 passed", "all done"])
    assert missing_evidence(run, "blocked", []) == ""


def test_a_run_without_tools_has_nothing_to_quote() -> None:
    assert missing_evidence(run_with(), "reached", []) == ""


def test_a_short_quotation_is_a_whole_line_of_a_result() -> None:
    """P4: a single letter is in any result, and shows nothing."""
    run = run_with(("shell", "all tests\nok\n"))
    assert missing_evidence(run, "reached", ["ok"]) == ""
    assert "'o'" in missing_evidence(run, "reached", ["o"])
    assert missing_evidence(run, "reached", [" "]) != ""
