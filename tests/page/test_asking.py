"""What runs ask of people, and what people line up for runs: the same in every tab, also after a reload."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Gate, Say, Wait
from page.browsing import Visit, chatting
from server.toolbox import Counted
from serving import AsksAbout, Setting, said_to

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_approval_is_answered_from_the_second_tab_and_the_first_sees_it(visit: Visit) -> None:
    """P8."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    async with chatting([CallTool("touch", {"path": "a"})], [Say("touched")], setting=setting) as server:
        first = await visit(server.url)
        await first.say("do it")
        card = first.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("touch")
        await expect(card).to_contain_text("it has an effect")
        assert tool.done == []
        await first.page.keyboard.press("Enter")  # in an empty field: no consent
        second = await visit(first.page.url)
        other = second.page.get_by_role("region", name="Approval needed")
        await other.get_by_role("button", name="Once").click()
        await first.answered("touched")
        await expect(card).to_have_count(0)
        await expect(other).to_have_count(0)
        assert tool.done == [{"path": "a"}]


async def test_a_question_is_answered_with_one_of_its_choices(visit: Visit) -> None:
    question = CallTool("ask_user", {"text": "Tea or coffee?", "choices": ["tea", "coffee"]})
    async with chatting([question], [Say("noted")]) as server:
        chat = await visit(server.url)
        await chat.say("ask me")
        card = chat.page.get_by_role("region", name="Question")
        await expect(card).to_contain_text("Tea or coffee?")
        await card.get_by_role("button", name="coffee").click()
        await chat.answered("noted")
        assert "coffee" in said_to(server.chaos, nth=2)[-1]


async def test_a_queued_message_is_edited_after_a_reload(visit: Visit) -> None:
    """P2: the queue is kept on the server."""
    gate = Gate()
    async with chatting([Say("busy"), Wait(gate)], [Say("second answer")]) as server:
        chat = await visit(server.url)
        await chat.say("one")
        await chat.answered("busy")
        await chat.say("two, wrong")
        queue = chat.page.get_by_role("region", name="Messages that wait")
        await expect(queue).to_contain_text("two, wrong")
        await chat.page.reload()
        await queue.get_by_role("button", name="Edit this message").click()
        await chat.page.get_by_role("textbox", name="Waiting message").fill("two, right")
        await chat.page.get_by_role("button", name="Save").click()
        await expect(queue).to_contain_text("two, right")
        gate.open()
        await chat.answered("second answer")
        assert said_to(server.chaos, nth=2)[-1] == "two, right"
        await expect(queue).to_have_count(0)
