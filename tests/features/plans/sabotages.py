"""Wrong ways to plan and to reach a goal; the check of the promise that each breaks must notice."""

from collections.abc import Callable, Sequence

from agent.world import Effect, process, send, tool_ends
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.plans.run import STILL_PLANNING, UpdatePlan, missing_evidence
from holdfast.folds import session as sessions
from holdfast.folds.run import Run
from holdfast.interfaces.tool import ToolTraits
from holdfast.values import RunSettings
from sabotage import Sabotage
from scene import Scene

# P13: in plan mode nothing is changed


async def check_nothing_that_changes_runs_before_the_plan_is_accepted(traits: ToolTraits) -> None:
    """P13: the tool is refused, whatever the model was offered."""
    acted: list[str] = []
    async with (
        ChaosServer([CallTool("write")], [Say("ok")]) as chaos,
        process(chaos, UpdatePlan(), Effect("write", acted, traits)) as world,
    ):
        await send(world, plan_first=True)
        log = await world.until("s", e.RunEnded)
        assert acted == []
        assert tool_ends(log)[0].result == STILL_PLANNING


# P4: a goal ends with evidence


def takes_its_word(run: Run, outcome: str, evidence: Sequence[str]) -> str:
    """Believes a model that says it is done."""
    del run, outcome, evidence
    return ""


def takes_any_letter(run: Run, outcome: str, evidence: Sequence[str]) -> str:
    """Takes a quotation of nothing for evidence."""
    return missing_evidence(run, outcome, [one for one in evidence if one.strip()] or ["3 passed"])


async def check_a_goal_needs_evidence(missing: Callable[[Run, str, Sequence[str]], str]) -> None:
    """P4: words that no tool has said, a blank, a letter and our own words show nothing."""
    scene = Scene()
    scene.put(e.MessageAccepted, message_id="m1", text="reach it")
    scene.put(e.RunQueued, run_id="r1", message_id="m1", settings=RunSettings(goal=True))
    scene.begin("r1")
    scene.call()
    scene.tool("t1", "3 passed\nok")
    scene.asks_tool("t2", "remember")
    scene.ends_tool("t2", "Remembered.")
    run = sessions.fold(scene.log).runs["r1"]
    assert missing(run, "reached", ["3 passed"]) == ""
    assert missing(run, "reached", ["ok"]) == ""
    for quotes in (["4 passed"], [" "], ["p"], ["Remembered."], []):
        assert missing(run, "reached", quotes), quotes


SABOTAGES = (
    Sabotage(
        "P13",
        check_nothing_that_changes_runs_before_the_plan_is_accepted,
        right=ToolTraits(),
        wrong=ToolTraits(read_only=True),
    ),
    Sabotage("P4", check_a_goal_needs_evidence, right=missing_evidence, wrong=takes_its_word),
    Sabotage("P4", check_a_goal_needs_evidence, right=missing_evidence, wrong=takes_any_letter),
)
