"""The permission mode in the composer: chosen before a chat, changed during it, and the same in every tab."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import Say
from page.browsing import Visit, faults_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_composer_shows_the_mode_and_changes_it(visit: Visit) -> None:
    """P7, P13: what it shows is what the log says, also for a change from another tab."""
    async with visit.chatting([Say("one")], [Say("two")]) as server:
        chat = await visit(server.url)
        mode = chat.page.get_by_role("combobox", name="Permission mode")
        await expect(mode).to_have_value("ask")
        await expect(mode.get_by_role("option")).to_have_text(
            ["Plan", "Ask", "Edits", "Workspace", "Unattended"]
        )
        await mode.select_option("Edits")
        await expect(mode).to_have_value("edits")
        await chat.say("first")
        await chat.answered("one")
        await expect(mode).to_have_value("edits")
        assert await faults_of(chat.page) == []

        other = await visit(chat.page.url, chat.page.context)
        others = other.page.get_by_role("combobox", name="Permission mode")
        await expect(others).to_have_value("edits")
        await others.select_option("Plan")
        await expect(mode).to_have_value("plan")
        await chat.page.reload()
        await expect(mode).to_have_value("plan")
        await chat.button("New chat").click()
        await expect(mode).to_have_value("ask")
