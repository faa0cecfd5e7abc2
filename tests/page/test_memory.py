"""Memory on the page: proposals in the inbox, edits, the message they came from, undo, forgetting."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Say
from holdfast.tools.memory.tools import Remember
from page.browsing import Visit, faults_of
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_decides_what_is_remembered_and_takes_it_back(visit: Visit) -> None:
    """P8, P11."""
    facts = [
        CallTool("remember", {"about": "user", "text": text, "reason": "for later"})
        for text in ("likes tea", "has a cat", "lives on Mars")
    ]
    setting = Setting(tools=(Remember(),))
    async with visit.chatting(facts, [Say("noted")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("I like tea, have a cat and live on Mars")
        await chat.answered("noted")
        await chat.page.get_by_role("button", name="Inbox").click()
        inbox = chat.page.get_by_role("dialog", name="Inbox")
        await expect(inbox.get_by_role("listitem")).to_have_count(3)
        assert await faults_of(chat.page) == []
        mars = inbox.get_by_role("listitem").filter(has_text="Mars")
        await mars.get_by_role("button", name="Reject").click()
        await expect(inbox.get_by_role("listitem")).to_have_count(2)
        await inbox.get_by_role("button", name="Accept all 2").click()
        await expect(inbox).to_contain_text("Nothing is waiting for you.")
        await inbox.get_by_role("button", name="Close").click()
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Memory").click()
        memory = chat.page.get_by_role("dialog", name="Memory").get_by_role("region", name="About you")
        await expect(memory.locator(".memory-words")).to_have_text("likes tea\nhas a cat")
        await memory.get_by_text("History").click()
        assert await faults_of(chat.page) == []
        await memory.get_by_role("button", name="Undo").first.click()
        await expect(memory.locator(".memory-words")).to_have_text("likes tea")
        await memory.get_by_text("Forget", exact=True).click()
        await memory.get_by_role("button", name="Forget everything for good").click()
        await expect(memory).to_contain_text("These chats still contain it")
        await expect(memory.locator(".memory-words")).to_have_count(0)
