"""The Channels panel: whether each platform works, who may talk, a code, a test message, and the log."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from fakes.telegram import FakeTelegram
from features.channels.lab import ME, options_for, served_channels
from holdfast.chaos import Say
from page.browsing import Chat, Visit, faults_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
OWNER = 7


async def panel_of(chat: Chat) -> Locator:
    """Open the panel."""
    await chat.button("Settings").click()
    settings = chat.page.get_by_role("dialog", name="Settings")
    await settings.get_by_role("button", name="Channels").click()
    return chat.page.get_by_role("dialog", name="Channels")


async def look_again(page: Page) -> None:
    """What is shown is read anew at once, as when the network is back."""
    await page.evaluate("() => void dispatchEvent(new Event('online'))")


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
            people = card.get_by_role("list", name="People in tg").get_by_role("listitem")
            await expect(people).to_have_text(re.compile(f"{ME}.*Can talk; allowed in the configuration"))
            await card.get_by_role("button", name="Pair a person with tg").click()
            made = card.get_by_role("region", name="Pairing code")
            await expect(made.get_by_text(re.compile(r"^(10:00|9:\d\d)$"))).to_be_visible()
            code = await made.locator("code").inner_text()
            telegram.world.say(OWNER, code)
            await expect(people).to_have_count(2)
            await expect(people.first).to_contain_text(
                re.compile("User 7.*Can talk and approve; paired with a code")
            )
            await expect(made.get_by_role("status")).to_have_text(
                "User 7 is paired. Create another code for the next person."
            )
            await expect(made).not_to_contain_text(code)
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
            await expect(broken).to_contain_text("Unauthorized. The token is invalid.")
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
            await expect(form.get_by_role("status")).to_have_text("Rejected: Bad Request: chat not found.")
            marked = card.get_by_role("list", name="Log of tg").locator("li.silent")
            await expect(marked).to_have_text(re.compile("Rejected · chat 999"))
            await card.get_by_role("button", name="Allow by ID in tg").click()
            allowing = card.get_by_role("form", name="Allow a person in tg")
            await allowing.get_by_role("textbox").fill("me")
            await allowing.get_by_role("button", name="Allow").click()
            await expect(allowing.get_by_role("alert")).to_contain_text("user ID of the platform")
            await allowing.get_by_role("textbox").fill("77")
            await allowing.get_by_role("button", name="Allow").click()
            await expect(card.get_by_role("list", name="People in tg")).to_contain_text("Can talk; allowed")
            await expect(card.get_by_text("1 message rejected by Telegram. See the log.")).to_be_visible()
            await marked.scroll_into_view_if_needed()
            assert await fits(chat.page)
            assert await faults_of(chat.page) == []


async def test_the_panel_says_how_to_get_the_first_channel_and_follows_its_state(visit: Visit) -> None:
    """Also while a code is shown, which says if the channel is away; what the server quotes is code."""
    async with visit.chatting() as server:
        chat = await visit(server.url)
        panel = await panel_of(chat)
        await expect(panel.get_by_text("~/.config/holdfast/holdfast.toml")).to_be_visible()
        example = panel.locator("pre")
        await expect(example).to_contain_text('[[channels]]\nname = "tg"\nkind = "telegram"')
        await expect(panel.get_by_text("docs/channels.md")).to_be_visible()
        sizes = await panel.locator(".wide-panel > p").evaluate_all(
            "all => all.map(one => getComputedStyle(one).fontSize)"
        )
        assert len(sizes) == 3
        assert len(set(sizes)) == 1
        assert await fits(chat.page)
        assert await faults_of(chat.page) == []
        hint = "`token` begins with xoxb-, `app_token` with xapp-"
        shown = {"name": "slack", "kind": "slack", "since": 1.0}
        failed = {**shown, "state": "failed", "problem": "The two tokens are swapped", "hint": hint}
        answer = {"object": "list", "data": [failed]}
        await chat.page.route("**/api/channels", lambda route: route.fulfill(json=answer))
        code = {"code": "ABCD2345", "expires_in_s": 600}
        await chat.page.route("**/api/channels/slack/pair", lambda route: route.fulfill(json=code))
        await look_again(chat.page)
        line = panel.locator(".facts .line")
        await expect(line).to_have_text(f"The two tokens are swapped. {hint.replace('`', '')}")
        await expect(line.locator("code")).to_have_text(["token", "app_token"])
        await panel.get_by_role("button", name="Pair a person with slack").click()
        made = panel.get_by_role("region", name="Pairing code")
        away = made.get_by_text("The channel isn't connected, so no one can use the code yet.")
        await expect(away).to_be_visible()
        answer["data"] = [{**shown, "state": "connected"}]
        await look_again(chat.page)
        await expect(away).to_have_count(0)
        await expect(made).to_contain_text("ABCD2345")


async def test_a_chat_of_a_platform_is_marked_and_what_is_written_on_the_page_stays_on_the_page(
    visit: Visit,
) -> None:
    async with FakeTelegram() as telegram:
        setting = served_channels(options_for(telegram))
        scripts = ([Say("hello there")], [Say("only here")])
        async with visit.chatting(*scripts, [Say("my own")], setting=setting) as server:
            chat = await visit(server.url)
            telegram.world.say(ME, "hi from afar")
            row = chat.rows.filter(has_text="hi from afar")
            await expect(row.get_by_role("link")).to_have_text(re.compile("Telegram"))
            await row.get_by_role("link").click()
            await chat.answered("hello there")
            note = chat.page.get_by_text(
                "This chat comes from Telegram. Answers to messages you send here appear only here, "
                "not in Telegram."
            )
            await expect(note).to_be_visible()
            assert await faults_of(chat.page) == []
            await chat.is_over()
            await chat.say("and from here")
            await chat.answered("only here")
            assert telegram.world.chat(ME).texts() == ["hello there"]
            await chat.page.get_by_label("Search chats").fill("afar")
            hits = chat.page.get_by_role("region", name="Search results").get_by_role("listitem")
            await expect(hits.first).to_contain_text("Telegram")
            await chat.button("New chat").click()
            await chat.say("mine")
            await chat.answered("my own")
            await expect(note).to_have_count(0)
            await chat.button("Clear search").click()
            await expect(chat.rows.filter(has_text="mine")).not_to_contain_text("Telegram")


async def test_a_panel_is_fresh_as_soon_as_the_connection_is_back(visit: Visit) -> None:
    """After failures the next look is up to a minute away, and what it showed before is wrong by then."""
    shown = {"name": "slack", "kind": "slack", "since": 1.0}
    async with visit.chatting() as server:
        chat = await visit(server.url)
        page = chat.page
        await page.clock.install()
        failed = {"object": "list", "data": [{**shown, "state": "failed", "problem": "Swapped"}]}
        await page.route("**/api/channels", lambda route: route.fulfill(json=failed))
        panel = await panel_of(chat)
        await expect(panel.get_by_text("Not connected", exact=True)).to_be_visible()
        await page.context.set_offline(offline=True)
        await page.unroute_all()
        for _ in range(6):  # twice as long each time, up to a minute
            async with page.expect_event("requestfailed", lambda asked: asked.url.endswith("/api/channels")):
                await page.clock.fast_forward(60_000)
        connected = {"object": "list", "data": [{**shown, "state": "connected"}]}
        await page.route("**/api/channels", lambda route: route.fulfill(json=connected))
        await page.context.set_offline(offline=False)
        await expect(panel.get_by_text("Connected", exact=True)).to_be_visible()
