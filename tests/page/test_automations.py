"""The Automations panel: schedules and webhooks, before they are saved and after they fired."""

import re

import pytest
from playwright.async_api import expect

from fakes.telegram import FakeTelegram
from features.channels.lab import ME, options_for, served_channels
from holdfast.chaos import CallTool, Say
from holdfast.features.automations.tool import Schedule
from holdfast.interfaces.system_clock import SystemClock
from page.browsing import Visit, faults_of
from serving import AsksAbout, Setting
from stores import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_webhook_is_made_tried_and_deleted_and_its_secret_is_shown_once(visit: Visit) -> None:
    """P14: one delivery, one run; P11: nothing but the first response has the secret."""
    async with visit.chatting([Say("done")], [Say("title")]) as server:
        chat = await visit(server.url)
        page = chat.page
        await chat.button("Settings").click()
        await page.get_by_role("dialog", name="Settings").get_by_role("button", name="Automations").click()
        panel = page.get_by_role("dialog", name="Automations")
        await expect(panel.get_by_text("None yet.")).to_be_visible()
        await panel.get_by_role("button", name="New automation").click()
        await panel.get_by_role("button", name="Save").click()
        await expect(panel.get_by_role("alert")).to_have_text("Enter a name.")
        await panel.get_by_label("Name").fill("<b>pushes</b>")
        await panel.get_by_label("What should the agent do?").fill("look at it")
        await expect(panel.get_by_text("Next runs")).to_be_visible()
        await panel.get_by_label(re.compile("Cron")).fill("99 8 * * *")
        await expect(panel.get_by_role("alert")).to_be_visible()
        await panel.get_by_text("Webhook", exact=True).click()
        await panel.get_by_role("button", name="Save").click()
        card = panel.get_by_role("region", name="Webhook secret")
        secret = await card.get_by_text(re.compile("^hfhook_")).inner_text()
        await card.get_by_role("button", name="Send a test delivery").click()
        await expect(card.get_by_text("Delivered.")).to_be_visible()
        listed = panel.get_by_role("list", name="Automations").get_by_role("listitem")
        await expect(listed.get_by_text(re.compile(": Completed")).first).to_be_visible()
        await card.get_by_role("button", name="I've copied it").click()
        await expect(card).to_have_count(0)
        assert secret not in await page.content()
        assert secret not in str(await server.served.get("/api/triggers"))
        await listed.get_by_text("History").click()
        await expect(listed.get_by_role("list").get_by_text(re.compile(": Completed"))).to_have_count(1)
        await panel.get_by_role("button", name="Delete <b>pushes</b>").click()
        await panel.get_by_role("button", name="Delete", exact=True).click()
        await expect(panel.get_by_text("None yet.")).to_be_visible()
        assert await faults_of(page) == []


async def test_the_approval_of_a_schedule_shows_its_next_times(visit: Visit) -> None:
    """P8: a person sees when it will run, not only the expression."""
    store, clock = MemoryStore(), SystemClock()
    setting = Setting(store=store, tools=(Schedule(store, clock),), judge=AsksAbout(frozenset({"schedule"})))
    asked = {"name": "Morning", "prompt": "Summarise it.", "cron": "0 8 1 1 *", "zone": "UTC"}
    async with visit.chatting([CallTool("schedule", asked)], [Say("Scheduled.")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("every new year at 8, summarise it")
        times = chat.page.get_by_label("Schedule")
        await expect(times).to_contain_text("01-01 08:00:00+00:00")
        await chat.button("Allow once").click()
        await chat.answered("Scheduled.")
        assert await faults_of(chat.page) == []


async def test_results_go_to_a_chat_that_was_ticked_and_what_cant_be_told_is_refused(visit: Visit) -> None:
    async with FakeTelegram() as telegram:
        setting = served_channels(options_for(telegram))
        async with visit.chatting([Say("hello")], [Say("the news")], setting=setting) as server:
            chat = await visit(server.url)
            page = chat.page
            telegram.world.say(ME, "hi")
            await expect(chat.rows).to_have_count(1)
            await chat.button("Settings").click()
            await (
                page.get_by_role("dialog", name="Settings").get_by_role("button", name="Automations").click()
            )
            panel = page.get_by_role("dialog", name="Automations")
            await panel.get_by_role("button", name="New automation").click()
            await panel.get_by_label("Name").fill("news")
            await panel.get_by_label("What should the agent do?").fill("tell me the news")
            await panel.get_by_text("More", exact=True).click()
            places = panel.get_by_role("group", name="Send results to")
            await places.get_by_role("textbox").fill("tg:777")
            await panel.get_by_role("button", name="Save").click()
            await expect(panel.get_by_role("alert").locator("code")).to_have_text("holdfast channels log")
            await places.get_by_role("textbox").fill("")
            await places.get_by_role("checkbox", name="42 in tg").check()
            await expect(places.get_by_role("textbox")).to_have_value(f"tg:{ME}")
            assert await faults_of(page) == []
            await panel.get_by_role("button", name="Save").click()
            listed = panel.get_by_role("list", name="Automations").get_by_role("listitem").first
            told = listed.locator(".facts > div").filter(has_text="Results go to")
            await expect(told).to_contain_text(f"tg:{ME}")
            await listed.get_by_role("button", name="Run now").click()
            await expect(listed.get_by_text(re.compile(": Completed")).first).to_be_visible()
            await listed.get_by_role("button", name="Edit").click()
            await panel.get_by_text("More", exact=True).click()
            await places.get_by_role("checkbox", name="42 in tg").uncheck()
            await panel.get_by_role("button", name="Save").click()
            await expect(told).to_have_count(0)
            await listed.get_by_role("button", name="Open the chat").first.click()
            await chat.answered("the news")
            await chat.sees(
                "An automation started this chat. Answers to messages you send here appear only here."
            )
            await expect(chat.rows.filter(has_text="Automation")).to_have_count(1)
