"""Plans and goals in the folds: which plan counts, and what the model is shown of both."""

from holdfast import events as e
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.plans.folds import PLAN_MARK, is_planning, plan_state, plan_text
from holdfast.folds.context import context_for
from holdfast.folds.feature_folds import run_fields
from holdfast.folds.session import fold as fold_session
from holdfast.folds.timeline import timeline
from holdfast.folds.transcript import fold
from holdfast.messages import AssistantMessage, UserMessage
from holdfast.values import PlanStep, RunSettings, Undo
from scene import Scene, begun

FIRST = (PlanStep(text="look", state="completed"), PlanStep(text="act"))
SECOND = (PlanStep(text="look", state="completed"), PlanStep(text="act", state="in_progress"))


def with_plan(scene: Scene, steps: tuple[PlanStep, ...], *, accepted: bool = False) -> int:
    return scene.of_run(PlanUpdated, tool_call_id="t1", steps=steps, accepted=accepted)


def plans(scene: Scene) -> list[tuple[PlanStep, ...]]:
    return [event.steps for _, event in fold(scene.log).kept if isinstance(event, PlanUpdated)]


def test_after_a_summary_the_model_still_has_the_plan_as_it_was_then() -> None:
    scene = begun()
    with_plan(scene, FIRST)
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="looked around")
    with_plan(scene, SECOND)
    (first, *_) = context_for(fold(scene.log), "r1")
    assert isinstance(first, UserMessage)
    assert first.text.endswith(f"looked around\n\n{PLAN_MARK}\n[x] look\n[ ] act")


def test_a_summary_without_a_plan_before_it_says_nothing_of_plans() -> None:
    scene = begun()
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="looked around")
    with_plan(scene, SECOND)
    (first, *_) = context_for(fold(scene.log), "r1")
    assert isinstance(first, UserMessage)
    assert PLAN_MARK not in first.text


def test_a_rewind_brings_the_plan_back_that_counted_then_and_a_redo_the_newer_one() -> None:
    scene = begun()
    at = with_plan(scene, FIRST)
    with_plan(scene, SECOND)
    scene.ends()
    undo = Undo(undo_id="u1", run_id="r1", workspace="/w", files=0, digest="d", plan="p")
    scene.put(e.SessionRewound, to_seq=at, undo=undo)
    assert plans(scene) == [FIRST]
    again = Undo(undo_id="u2", run_id="r1", workspace="/w", files=0, digest="d", plan="p", redoes="u1")
    scene.put(e.SessionRewound, to_seq=at, undo=again)
    assert plans(scene) == [FIRST, SECOND]


def test_a_run_plans_until_a_person_has_accepted_a_plan() -> None:
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="do it")
    scene.put(e.RunQueued, run_id="r1", message_id="m1", settings=RunSettings(plan_first=True))
    scene.begin("r1")
    assert run_fields(fold_session(scene.log).runs["r1"])["is_planning"] is True
    with_plan(scene, FIRST)
    assert is_planning(fold_session(scene.log).runs["r1"])
    with_plan(scene, FIRST, accepted=True)
    with_plan(scene, SECOND)
    run = fold_session(scene.log).runs["r1"]
    newest = plan_state(run).plan
    assert (is_planning(run), newest and newest.steps) == (False, SECOND)


def test_each_round_of_a_goal_is_counted_shown_and_told_to_the_model() -> None:
    scene = begun()
    scene.text("done, I think")
    scene.of_run(GoalContinued, round=2, told="go on")
    transcript = fold(scene.log)
    *_, said, told = context_for(transcript, "r1")
    assert isinstance(said, AssistantMessage)
    assert told == UserMessage("go on")
    assert plan_state(fold_session(scene.log).runs["r1"]).goal_round == 2
    assert [line.text for line in timeline(scene.log).lines][-1] == "round 2"


def test_plans_are_words_in_the_timeline() -> None:
    scene = begun()
    with_plan(scene, FIRST)
    with_plan(scene, SECOND, accepted=True)
    texts = [line.text for line in timeline(scene.log).lines if line.type == "plan.updated"]
    assert texts == ["1 of 2 steps", "1 of 2 steps, accepted"]
    assert plan_text(SECOND) == "[x] look\n[>] act"
