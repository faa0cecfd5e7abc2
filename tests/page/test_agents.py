"""Sub-agents on the page: a tree while they work, what they ask at the parent, and the way there and back."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Say
from holdfast.features.delegation.tools import child_tools
from page.browsing import Visit
from server.toolbox import Counted
from serving import AsksAbout, Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_sub_agent_is_seen_answered_and_opened_from_its_parent(visit: Visit) -> None:
    """P8, P14: the approval is the sub-agent's own, and its answer arrives once."""
    tool = Counted()
    setting = Setting(tools=(tool, *child_tools()), judge=AsksAbout(frozenset({"touch"})))
    async with visit.chatting(
        [CallTool("delegate", {"task": "Touch it."})],
        [CallTool("touch", {"path": "a"})],
        [Say("I touched it.")],
        [Say("All done.")],
        setting=setting,
    ) as server:
        chat = await visit(server.url)
        await chat.say("go")
        node = chat.page.get_by_role("list", name="1 sub-agent").get_by_role("link")
        await expect(node).to_contain_text("agent-1")
        await expect(node).to_contain_text("Needs you")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("agent-1: Approval needed")
        await card.get_by_role("button", name="Once").click()
        await chat.answered("All done.")
        await expect(card).to_have_count(0)
        await expect(node).to_contain_text("Done")
        await expect(node).to_contain_text("I touched it.")
        await expect(chat.rows).to_have_count(1)  # a sub-agent isn't in the list
        await node.click()
        await chat.answered("I touched it.")
        await chat.page.get_by_role("link", name="agent-1").click()
        await chat.answered("All done.")
    assert tool.done == [{"path": "a"}]


async def test_what_a_sub_agent_in_the_background_says_is_not_taken_for_a_persons_words(visit: Visit) -> None:
    """P14."""
    async with visit.chatting(
        [CallTool("delegate", {"task": "Look.", "background": True})],
        *([Say("Fine.")],) * 4,
        setting=Setting(tools=tuple(child_tools())),
    ) as server:
        chat = await visit(server.url)
        await chat.say("go")
        said = chat.page.get_by_role("article", name="agent-1")
        await expect(said).to_contain_text("has ended")
        await expect(chat.people).to_have_count(1)
