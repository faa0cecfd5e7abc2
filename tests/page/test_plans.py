"""Plans and goals on the page: changed and accepted by a person, above the composer, also after a reload."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Gate, Say, Wait
from holdfast.features.plans.run import FinishGoal, UpdatePlan
from page.browsing import Chat, Visit, faults_of
from server.toolbox import Counted
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROPOSED = {"steps": [{"text": "Read the notes"}, {"text": "Touch the file"}]}
HALF = {"steps": [{"text": "Read twice", "state": "completed"}, {"text": "Touch", "state": "in_progress"}]}


async def test_a_plan_is_changed_accepted_and_followed_above_the_composer(visit: Visit) -> None:
    """P7, P8."""
    tool, gate = Counted(), Gate()
    setting = Setting(tools=(tool, UpdatePlan(), FinishGoal()))
    scripts = (
        [CallTool("update_plan", PROPOSED)],
        [CallTool("update_plan", HALF)],
        [Wait(gate), Say("half way")],
        [Say("not in plan mode")],
    )
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("/plan touch it")
        card = chat.page.get_by_role("region", name="Approval needed")
        steps = card.get_by_role("textbox")
        await expect(steps).to_have_value("Read the notes\nTouch the file")
        await expect(chat.button("Plan first")).to_be_visible()
        assert await faults_of(chat.page) == []
        await steps.fill("Read the notes\nRead twice")
        await card.get_by_role("button", name="Accept with changes").click()
        plan = chat.page.get_by_role("region", name="Plan", exact=True)
        await expect(plan).to_contain_text("1 of 2 steps")
        await chat.page.reload()
        await expect(plan.get_by_role("listitem")).to_have_text(["Read twice", "Touch"])
        assert await faults_of(chat.page) == []
        gate.open()
        await chat.answered("half way")
        await expect(chat.button("Plan first")).to_have_count(0)
        await plan.get_by_role("button").click()
        await expect(plan.get_by_role("listitem")).to_have_count(0)
        await chat.say("go on")
        await chat.answered("not in plan mode")


async def test_each_round_of_a_goal_is_visible(visit: Visit) -> None:
    setting = Setting(tools=(FinishGoal(),))
    ends = CallTool("finish_goal", {"outcome": "reached", "summary": "It is."})
    async with visit.chatting([Say("soon")], [ends], [Say("reached")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("/goal count to three")
        await chat.sees("Round 2: the goal isn't shown to be reached yet")
        await chat.answered("reached")
        await expect(chat.people.last).to_contain_text("count to three")


async def test_a_slash_shows_what_can_be_written_instead_of_a_message(visit: Visit) -> None:
    """A command that there is not is held back once.

    What was meant for the page costs no call of the model, and what was meant for the model gets there.
    """
    scripts = ([Say("planned")], [Say("a path, then")], [Say("again")])
    async with visit.chatting(*scripts, setting=Setting(tools=(UpdatePlan(),))) as server:
        chat = await visit(server.url)
        commands = chat.page.get_by_role("list", name="Commands").get_by_role("button")
        await chat.box.press_sequentially("/")
        await expect(commands).to_have_count(3)  # an empty chat has nothing to compact
        await chat.box.press_sequentially("p")
        await expect(commands).to_have_count(1)
        assert await faults_of(chat.page) == []
        await chat.page.keyboard.press("Tab")
        await expect(chat.box).to_be_focused()
        await expect(chat.box).to_have_value("/plan ")
        await expect(commands).to_have_count(0)
        await chat.page.keyboard.type("a walk")
        await chat.page.keyboard.press("Enter")
        await chat.answered("planned")
        await expect(chat.button("Plan first")).to_have_count(1)
        await chat.box.press_sequentially("/")
        await expect(commands).to_have_count(4)
        for key, focused in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
            await chat.page.keyboard.press(key)
            await expect(commands.nth(focused)).to_be_focused()
        await chat.page.keyboard.press("ArrowUp")
        await expect(chat.box).to_be_focused()
        await chat.page.keyboard.press("ArrowDown")
        await chat.page.keyboard.press("ArrowRight")
        await chat.page.keyboard.press("Enter")
        await expect(chat.box).to_have_value("/goal ")
        await expect(chat.box).to_be_focused()
        await chat.is_over()
        await _hold_back(chat)
        assert len(server.chaos.seen.requests) == 3


async def _hold_back(chat: Chat) -> None:
    """Help is shown, a path is sent, and what is no command is sent at the second attempt."""
    await chat.say("/help")
    shown = chat.page.get_by_role("dialog", name="Commands and shortcuts")
    await expect(shown.get_by_text("/compact")).to_be_visible()
    assert await faults_of(chat.page) == []
    await chat.page.keyboard.press("Escape")
    await expect(chat.box).to_have_value("")
    said = chat.page.get_by_role("form", name="Message").get_by_role("alert")
    await chat.say("/etc/hosts is wrong")  # a path is no command
    await chat.answered("a path, then")
    await chat.is_over()
    await chat.say("/stop now")
    await expect(said).to_have_text(
        "Unknown command; /help lists them. To send it as a message, send it again."
    )
    await expect(said.locator("code")).to_have_text("/help")
    await expect(chat.people).to_have_count(2)
    await chat.box.press_sequentially("!")
    await expect(said).to_have_count(0)
    await chat.box.press("Enter")
    await expect(said).to_be_visible()
    await chat.box.press("Enter")
    await chat.answered("again")
    await expect(chat.people.last).to_contain_text("/stop now!")
