"""The Channels panel: whether each platform works, who may talk, a code, a test message, and the log."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from channels.lab import ME, options_for, served_channels
from holdfast.chaos import Say
from holdfast.chaos.telegram import FakeTelegram
from page.browsing import Chat, Visit, faults_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
OWNER = 7


async def panel_of(chat: Chat) -> Locator:
    """Open the panel."""
    await chat.button("Settings").click()
    settings = chat.page.get_by_role("dialog", name="Settings")
    await settings.get_by_role("button", name="Channels").click()
    return chat.page.get_by_role("dialog", name="Channels")


async def fits(page: Page) -> bool:
    """Whether nothing has to be scrolled sideways."""
    return await page.evaluate(
        "[...document.querySelectorAll('dialog, dialog .target')]"
        ".every(one => one.scrollWidth <= one.clientWidth)"
    )


async def test_a_person_is_paired_talks_is_listed_and_revoked(visit: Visit) -> None:
    """P11: a code is shown once and lets in the one who sends it; the panel says who may do what, and why."""
    async with FakeTelegram() as telegram:
        setting = served_channels(options_for(telegram, approvers=frozenset[str]()))
        async with visit.chatting([Say("hello there")], setting=setting) as server:
            chat = await visit(server.url)
            panel = await panel_of(chat)
            card = panel.get_by_role("list", name="Channels").get_by_role("listitem").first
            await expect(card.get_by_text("Connected", exact=True)).to_be_visible()
            await expect(card.get_by_role("heading")).to_contain_text("Telegram · holdfast_bot")
            people = card.get_by_role("list", name="People of tg").get_by_role("listitem")
            await expect(people).to_have_text(re.compile(f"{ME}.*Can talk; named in the settings"))
            await card.get_by_role("button", name="Pair a person with tg").click()
            made = card.get_by_role("region", name="Pairing code")
            await expect(made.get_by_text(re.compile(r"^(10:00|9:\d\d)$"))).to_be_visible()
            code = await made.locator("code").inner_text()
            telegram.world.say(OWNER, code)
            await expect(people).to_have_count(2)
            await expect(people.first).to_contain_text(
                re.compile("User 7.*Can talk and approve; paired with a code")
            )
            assert await faults_of(chat.page) == []
            await made.get_by_role("button", name="Done").click()
            await expect(made).to_have_count(0)
            assert code not in await chat.page.content()
            assert code not in str(await server.served.get("/api/channels/tg/log"))
            telegram.world.say(OWNER, "hi")
            await card.get_by_text("Log and test message").click()
            lines = card.get_by_role("list", name="Log of tg").get_by_role("listitem")
            await expect(lines.filter(has_text="Delivered")).to_have_count(2)  # the welcome and the answer
            await expect(lines.filter(has_text="Received: a message")).to_have_count(1)
            await card.get_by_role("button", name="Revoke User 7").click()
            await card.get_by_role("alert").get_by_role("button", name="Revoke").click()
            await expect(people).to_have_count(1)


async def test_a_test_message_says_what_became_of_it_and_trouble_is_marked(visit: Visit) -> None:
    """P14: what was not accepted stands out in the log; a platform that fails is red, with what to do."""
    async with FakeTelegram() as telegram:
        wrong = options_for(telegram, name="second", token=f"{telegram.token}-wrong")
        setting = served_channels(options_for(telegram), wrong)
        async with visit.chatting(setting=setting) as server:
            telegram.world.chat(ME)
            chat = await visit(server.url, viewport={"width": 390, "height": 844}, color_scheme="dark")
            await chat.button("Show chats").click()
            panel = await panel_of(chat)
            cards = panel.get_by_role("list", name="Channels").locator("> li")
            broken = cards.filter(has_text="second")
            await expect(broken.get_by_text("Not connected", exact=True)).to_be_visible()
            await expect(broken).to_contain_text("Unauthorized. The token is wrong.")
            card = cards.filter(has_text="holdfast_bot")
            await card.get_by_text("Log and test message").click()
            form = card.get_by_role("form", name="Test tg")
            await form.get_by_label("Chat").fill(str(ME))
            await form.get_by_role("button").click()
            await expect(form.get_by_role("status")).to_have_text("Delivered")
            assert telegram.world.chat(ME).texts() == [
                "This is a test from holdfast channels test. It works."
            ]
            await form.get_by_label("Chat").fill("999")
            await form.get_by_role("button").click()
            await expect(form.get_by_role("status")).to_have_text(
                "Not accepted: Bad Request: chat not found."
            )
            marked = card.get_by_role("list", name="Log of tg").locator("li.silent")
            await expect(marked).to_have_text(re.compile("Not accepted · chat 999"))
            await card.get_by_role("button", name="Allow by id in tg").click()
            allowing = card.get_by_role("form", name="Allow a person in tg")
            await allowing.get_by_role("textbox").fill("me")
            await allowing.get_by_role("button", name="Allow").click()
            await expect(allowing.get_by_role("alert")).to_contain_text("the platform's id of a person")
            await allowing.get_by_role("textbox").fill("77")
            await allowing.get_by_role("button", name="Allow").click()
            await expect(card.get_by_role("list", name="People of tg")).to_contain_text("Can talk; allowed")
            await marked.scroll_into_view_if_needed()
            assert await fits(chat.page)
            assert await faults_of(chat.page) == []
