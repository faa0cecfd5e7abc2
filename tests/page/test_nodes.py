"""The page of one of several servers: a session whose own server is gone, and the list of servers."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import Say
from page.browsing import Visit
from runner.memory_nodes import homed_elsewhere
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_open_page_learns_that_the_sessions_server_is_gone_and_moves_the_session(
    visit: Visit,
) -> None:
    """P3 and P6: what a run waits for is shown without a reload, and a person can end the wait."""
    store = await homed_elsewhere("s")
    store.is_away = False
    async with visit.chatting([Say("done")], setting=Setting(store=store)) as server:
        context = await visit.context()
        await context.clock.install()
        chat = await visit(f"{server.url}/s/s", context)
        live, mark = chat.page.locator(".live"), chat.page.get_by_role("group", name="Run status")
        await expect(live).to_be_visible()
        await expect(mark).to_have_count(0)
        store.is_away = True
        await context.clock.fast_forward(9000)
        await expect(mark).to_contain_text("Waiting for server a, which has been gone since 2023-11-14")
        await expect(live).to_have_count(0)
        await chat.say("Are you there?")
        await chat.sees("The agent reads it at its next step")
        await expect(mark).to_be_visible()
        await chat.button("Move to another server").click()
        await chat.answered("done")
        await expect(mark).to_have_count(0)
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog", name="Settings").get_by_role("button", name="Servers").click()
        servers = chat.page.get_by_role("dialog", name="Servers")
        await expect(servers.get_by_role("heading", name="b")).to_be_visible()
        await expect(servers.get_by_role("listitem")).to_have_count(1)
