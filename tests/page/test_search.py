"""Search from the page: in all chats, in the open one alone, and on the way to a message far above."""

import asyncio
import re

import pytest
from playwright.async_api import Route, expect

from holdfast.chaos import Say
from page.browsing import Visit, faults_of
from page.long_log import put_long_session
from serving import Setting
from stores import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAR = "**/messages?limit=500*"


async def test_a_long_chat_is_searched_whole_where_the_browser_sees_only_a_part(visit: Visit) -> None:
    """The browser keeps its key; the page says what is not found by it, and offers what finds all."""
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=300)
    async with visit.chatting(
        [Say("Question 7 is mentioned here, too")], setting=Setting(store=store)
    ) as server:
        chat = await visit(server.url)
        keys, hint = chat.page.keyboard, chat.page.get_by_role("region", name="Search hint")
        await chat.say("another chat")
        await chat.answered("Question 7 is mentioned here, too")
        await keys.press("Control+f")
        await chat.page.get_by_role("link", name="A long talk").click()
        await chat.sees("Question 300: where does the time go?")
        await expect(hint).to_have_count(0)  # a short chat is in the page as a whole
        await chat.page.evaluate(
            "addEventListener('keydown', event => { window.taken = event.defaultPrevented; })"
        )
        await keys.press("Control+f")
        await hint.get_by_role("button", name="Search the whole chat").click()
        assert await chat.page.evaluate("window.taken") is False
        await expect(hint).to_have_count(0)
        box = chat.page.get_by_role("searchbox", name="Search chats")
        await expect(box).to_be_focused()
        await keys.type("question 7")
        hits = chat.page.get_by_role("region", name="Search results").get_by_role("link")
        await expect(hits).to_have_count(11)  # 7 and 70 to 79, each for itself
        assert await faults_of(chat.page) == []
        await hits.last.click()
        await expect(chat.page.locator(".talk-row:focus")).to_contain_text("Question 7: where")
        await chat.page.get_by_role("radio", name="All chats").check(force=True)
        await expect(hits).to_have_count(2)
        await keys.press("Control+Shift+F")
        await expect(hits).to_have_count(11)
        await keys.press("Control+b")
        await expect(box).to_have_count(0)
        await keys.press("Control+b")
        await expect(box).to_have_value("question 7")
        await box.press("Escape")
        await expect(chat.rows).to_have_count(2)
        await expect(chat.page.get_by_role("radio", name="This chat")).to_have_count(0)
    await store.close()


async def test_on_the_way_to_a_message_far_above_the_page_says_so_and_says_why_it_is_not_reached(
    visit: Visit,
) -> None:
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=300)
    async with visit.chatting(setting=Setting(store=store)) as server:
        chat = await visit(f"{server.url}/s/long")
        await chat.sees("Question 300: where does the time go?")
        may_pass: asyncio.Queue[bool] = asyncio.Queue()

        async def hold(route: Route) -> None:
            await (route.continue_() if await may_pass.get() else route.abort("connectionrefused"))

        await chat.page.route(FAR, hold)
        await chat.page.get_by_role("searchbox", name="Search chats").fill("question 7")
        hit = chat.page.get_by_role("region", name="Search results").get_by_role("link")
        await hit.click()
        going = chat.page.get_by_text("Finding the message")
        await expect(going).to_be_visible()
        may_pass.put_nowait(False)
        await expect(going).to_have_count(0)
        await expect(chat.page.get_by_role("alert")).to_have_text("Can't reach the server.")
        await hit.click()
        await expect(chat.page.get_by_role("alert")).to_have_count(0)
        await expect(going).to_be_visible()
        for _ in range(3):
            may_pass.put_nowait(True)
        await expect(chat.page.locator(".talk-row:focus")).to_contain_text("Question 79: where")
        await expect(going).to_have_count(0)
    await store.close()


async def test_what_was_rewritten_since_is_said_to_be_gone_instead_of_leading_elsewhere(visit: Visit) -> None:
    async with visit.chatting([Say("marmalade it is")], [Say("honey it is")]) as server:
        chat = await visit(server.url)
        await chat.say("which?")
        await chat.answered("marmalade it is")
        # what the command line does
        run = (await server.served.get("/v1/runs"))[1]["data"][0]["run_id"]
        assert (await server.served.post(f"/v1/runs/{run}/retry"))[0] == 202
        await chat.answered("honey it is")
        await chat.page.get_by_role("searchbox", name="Search chats").fill("marmalade")
        await chat.page.get_by_role("region", name="Search results").get_by_role("link").click()
        await chat.sees(re.compile("no longer in the chat"))
        await expect(chat.page.locator(".talk-row.found")).to_have_count(0)
        await chat.page.get_by_role("searchbox", name="Search chats").fill("honey")
        await expect(chat.page.locator("mark")).to_have_text("honey")
        await chat.page.get_by_role("region", name="Search results").get_by_role("link").click()
        await expect(chat.page.locator(".talk-row:focus")).to_contain_text("honey it is")
