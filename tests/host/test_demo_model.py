"""The built-in demo model: what it says to a message, in plan mode, and with a goal."""

from pathlib import Path

import pytest

from holdfast.features.plans.run import FinishGoal, UpdatePlan
from holdfast.host.demo_model import demo_server, demo_target
from serving import Setting, served

PLANS = Setting(tools=(UpdatePlan(), FinishGoal()))


async def test_it_proposes_a_plan_and_ends_once_that_is_accepted() -> None:
    """P8: a newcomer sees what plan mode is."""
    async with demo_server() as demo, served(demo_target(demo.base_url), setting=PLANS) as server:
        run_id = await server.start("write a file", plan_first=True)
        await server.until(run_id, "approval.request")
        assert (await server.post(f"/v1/runs/{run_id}/approval", {"choice": "once"}))[0] == 200
        shown = await server.ended(run_id)
        assert (shown["status"], "accepted the plan" in shown["output"]) == ("completed", True)


async def test_it_says_at_once_that_it_cant_reach_a_goal() -> None:
    """P4: it neither says its greeting for fifty rounds, nor claims what it didn't do."""
    async with demo_server() as demo, served(demo_target(demo.base_url), setting=PLANS) as server:
        run_id = await server.start("make the tests pass", goal=True)
        shown = await server.ended(run_id)
        assert "can't work towards a goal" in shown["output"]
        session_id = shown["session_id"]
        _, page = await server.get(f"/api/sessions/{session_id}/messages")
        assert "round 2" not in str(page)


@pytest.mark.parametrize(
    ("said", "shown"), [("Look first.", "“Look first.” Every"), ("Look", "“Look”. Every")]
)
async def test_it_repeats_what_was_said_with_one_full_stop(said: str, shown: str) -> None:
    async with demo_server() as demo, served(demo_target(demo.base_url)) as server:
        ended = await server.ended(await server.start(said))
        assert f"You said: {shown}" in ended["output"]


async def test_it_repeats_no_note_from_holdfast(tmp_path: Path) -> None:
    """A message that names a file gets a note for the model, which isn't what the user said."""
    (tmp_path / "notes.txt").write_text("hello")
    setting = Setting(workspace=tmp_path)
    async with demo_server() as demo, served(demo_target(demo.base_url), setting=setting) as server:
        ended = await server.ended(await server.start("Look at @notes.txt"))
        assert "You said: “Look at @notes.txt”. Every" in ended["output"]
