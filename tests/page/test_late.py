"""What comes late, or a frame too late: the focus is there before the next key, and no old response wins."""

import pytest
from playwright.async_api import Page, Route, expect

from fakes.telegram import FakeTelegram
from features.channels.lab import options_for, served_channels
from holdfast.chaos import Gate, Say
from holdfast.features.memory.run import Remember
from page.browsing import Visit, moment
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What a key or a click does before the browser draws anything: a page that waits for a frame has not moved.
AT_ONCE = """async (element, key) => {
  const how = {bubbles: true, cancelable: true};
  if (key === null) element.click();
  else element.dispatchEvent(new KeyboardEvent('keydown', {...key, ...how}));
  for (let turns = 0; turns < 20; turns++) await Promise.resolve();
  const now = document.activeElement;
  return now.id || now.getAttribute('aria-label') || now.textContent;
}"""


async def press(page: Page, key: dict[str, object]) -> str:
    """What has the focus when the next key is heard."""
    return await page.locator(":focus, body").last.evaluate(AT_ONCE, key)


async def test_what_a_key_opens_has_the_focus_before_the_next_key(visit: Visit) -> None:
    """A dialog, the drawer, a title, a message: what is typed without a pause belongs there."""
    async with visit.chatting([Say("hello")]) as server:
        chat = await visit(server.url, viewport={"width": 1000, "height": 700})
        page = chat.page
        await chat.say("hi")
        await chat.answered("hello")
        await chat.is_over()
        await chat.button("Settings").click()  # what opens later is fetched now
        await expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        link = chat.rows.first.get_by_role("link")
        await link.press("F2")
        await expect(page.get_by_role("textbox", name="Chat title")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(link).to_be_focused()
        assert await press(page, {"key": ",", "ctrlKey": True}) == "Close"
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        assert await press(page, {"key": "t", "altKey": True}) == "Close timeline"
        await page.keyboard.press("Escape")
        await chat.people.last.hover()
        edit = chat.button("Edit and resend")
        assert await edit.evaluate(AT_ONCE, None) == "Message"
        assert await press(page, {"key": "Escape"}) == "composer"
        assert await link.evaluate(AT_ONCE, {"key": "F2"}) == "Chat title"
        assert "hi" in await press(page, {"key": "Enter"})
        await expect(link).to_be_focused()
        await page.set_viewport_size({"width": 600, "height": 700})
        await expect(chat.rows).to_have_count(0)
        assert await press(page, {"key": "k", "ctrlKey": True}) == "search"
        # a field that was left again does not take the focus back a frame later
        await page.set_viewport_size({"width": 1000, "height": 700})
        await page.goto(server.url)
        await expect(chat.box).to_be_focused()
        assert await press(page, {"key": "k", "ctrlKey": True}) == "search"
        await press(page, {"key": "Escape"})
        await chat.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        await expect(chat.page.get_by_role("searchbox", name="Search chats")).not_to_be_focused()


async def held_once(page: Page, address: str) -> Gate:
    """The server answers the next such request at once; its response arrives when the gate opens."""
    arrives = Gate()

    async def late(route: Route) -> None:
        if arrives.arrivals:
            await route.fallback()
            return
        response = await route.fetch()
        await arrives.passed()
        await route.fulfill(response=response)

    await page.route(address, late)
    return arrives


async def test_a_list_that_was_being_read_while_someone_changed_it_is_read_again(visit: Visit) -> None:
    """P9: who was let out is gone from the panel at once, though a response from before says otherwise."""
    async with FakeTelegram() as telegram:
        setting = served_channels(options_for(telegram, approvers=frozenset[str]()))
        async with visit.chatting(setting=setting) as server:
            chat = await visit(server.url)
            await chat.button("Settings").click()
            settings = chat.page.get_by_role("dialog", name="Settings")
            await settings.get_by_role("button", name="Channels").click()
            panel = chat.page.get_by_role("dialog", name="Channels")
            people = panel.get_by_role("list", name="People in tg").get_by_role("listitem")
            await expect(people).to_have_count(1)
            await panel.get_by_role("button", name="Allow by ID in tg").click()
            form = panel.get_by_role("form", name="Allow a person in tg")
            await form.get_by_role("textbox").fill("77")
            arrives = await held_once(chat.page, "**/api/channels")
            await arrives.reached()
            async with moment(chat.page):  # the next regular reading never comes
                await form.get_by_role("button", name="Allow").click()
                await expect(form).to_have_count(0)
                arrives.open()
                await expect(people).to_have_count(2)


async def test_an_edit_of_a_memory_that_was_changed_meanwhile_is_refused(visit: Visit) -> None:
    """P8: what was written since is not overwritten by someone who never saw it."""
    about = {"scope": "user", "document": ""}
    async with visit.chatting(setting=Setting(tools=(Remember(),))) as server:
        written = await server.served.call("PUT", "/v1/memory", body={**about, "text": "likes tea"})
        assert written.status == 200
        chat = await visit(server.url)
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Memory").click()
        memory = chat.page.get_by_role("dialog", name="Memory").get_by_role("region", name="About you")
        await memory.get_by_role("button", name="Edit").click()
        await memory.get_by_role("textbox", name="Memory").fill("likes tea, or coffee")
        written = await server.served.call("PUT", "/v1/memory", body={**about, "text": "has a cat"})
        assert written.status == 200
        async with chat.page.expect_request("**/v1/memory", timeout=30_000) as asked:
            await chat.page.evaluate("() => void dispatchEvent(new Event('online'))")
        read = await (await asked.value).response()
        assert read is not None
        assert "has a cat" in await read.text()
        await memory.get_by_role("button", name="Save").click()
        await expect(memory.get_by_role("alert")).to_be_visible()
        _, known = await server.served.get("/v1/memory")
        assert "has a cat" in str(known)
