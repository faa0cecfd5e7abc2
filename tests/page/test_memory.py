"""Memory on the page: proposals in the inbox, edits, the message they came from, undo, forgetting."""

import re

import pytest
from playwright.async_api import expect

from features.memory.world import opened
from holdfast.chaos import CallTool, Say
from holdfast.features.memory.run import Remember
from page.browsing import Visit, faults_of
from serving import Setting
from stores import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_decides_what_is_remembered_and_takes_it_back(visit: Visit) -> None:
    """P8, P11."""
    facts = [
        CallTool("remember", {"about": "user", "text": text, "reason": "for later"})
        for text in ("likes tea", "has a cat", "lives on Mars", "was on the Moon")
    ]
    setting = Setting(tools=(Remember(),))
    async with visit.chatting(facts, [Say("noted")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("I like tea, have a cat and live on Mars")
        await chat.answered("noted")
        here = chat.page.get_by_role("region", name="Proposed memories")
        await expect(here.get_by_role("listitem")).to_have_count(4)
        assert await faults_of(chat.page) == []
        moon = here.get_by_role("listitem").filter(has_text="Moon")
        await moon.get_by_role("button", name="Reject").click()
        await expect(here.get_by_role("listitem")).to_have_count(3)
        await expect(chat.page).to_have_title(re.compile(r"^\(3\)"))
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
        await expect(here).to_have_count(0)
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Memory").click()
        memory = chat.page.get_by_role("dialog", name="Memory").get_by_role("region", name="About you")
        await expect(memory.locator(".memory-words")).to_have_text("likes tea\nhas a cat")
        await memory.get_by_text("History").click()
        assert await faults_of(chat.page) == []
        await memory.get_by_role("button", name="Undo").first.click()
        await expect(memory.locator(".memory-words")).to_have_text("likes tea")
        await memory.get_by_text("Forget", exact=True).click()
        await memory.get_by_role("button", name="Forget everything permanently").click()
        await expect(memory).to_contain_text("These chats are its source or still contain it.")
        await expect(memory.locator(".memory-words")).to_have_count(0)


async def test_what_was_learned_today_is_taken_back_with_one_click(visit: Visit) -> None:
    """P13: and what was learned after it stays.

    P11: chats that still have what was forgotten are deleted from there.
    """
    facts = [
        CallTool("remember", {"about": "user", "text": text, "reason": "for later"})
        for text in ("likes tea", "has a cat")
    ]
    store = MemoryStore()
    setting = Setting(store=store, tools=(Remember(),), features=opened(store, "auto"))
    async with visit.chatting(facts, [Say("noted")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("I like tea and have a cat")
        await chat.answered("noted")
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Memory").click()
        dialog = chat.page.get_by_role("dialog", name="Memory")
        today = dialog.get_by_role("region", name="Learned today")
        await expect(today.get_by_role("listitem")).to_have_count(2)
        assert await faults_of(chat.page) == []
        tea = today.get_by_role("listitem").filter(has_text="likes tea")
        await tea.get_by_role("button", name="Undo").click()
        memory = dialog.get_by_role("region", name="About you")
        await expect(memory.locator(".memory-words")).to_have_text("has a cat")
        await tea.get_by_role("button", name="Open the message").click()
        await expect(dialog).to_have_count(0)
        await expect(chat.page.get_by_role("article", name="You")).to_be_visible()
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Memory").click()
        await memory.get_by_text("Forget", exact=True).click()
        await memory.get_by_role("textbox").fill("cat")
        await memory.get_by_role("button", name="Forget permanently").click()
        await memory.get_by_role("button", name="Delete").click()
        assert len((await server.served.get("/api/sessions"))[1]["data"]) == 1, "it asks once more"
        await memory.get_by_role("button", name="Delete permanently?").click()
        await expect(memory).to_contain_text("Deleted permanently.")
        assert (await server.served.get("/api/sessions?all=true"))[1]["data"] == []
