"""An answer as it comes, seen through reloads, several tabs, stops and broken lines."""

import pytest
from playwright.async_api import expect

from holdfast.chaos import ClosedBy, Gate, Hang, Say, Wait
from page.browsing import Chat, Visit, is_draft, moment

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_reload_two_tabs_and_a_late_third_see_the_same(visit: Visit) -> None:
    """P7: what was there before the reload and what comes; another browser comes after the end."""
    gate = Gate()
    async with visit.chatting([Say("one "), Wait(gate), Say("two")]) as server:
        first = await visit(server.url)
        await first.say("count")
        await first.answered("one")
        await first.page.reload()
        await first.answered("one")
        await expect(first.people).to_have_count(1)
        second = await visit(first.page.url, first.page.context)
        await second.answered("one")
        gate.open()
        third = await visit(first.page.url)
        for chat in (first, second, third):
            await chat.answered("one two")
            await expect(chat.answers).to_have_count(1)
            await expect(chat.people).to_have_count(1)
            await expect(chat.rows).to_have_count(1)


async def test_stop_ends_the_answer_and_says_so(visit: Visit) -> None:
    """P5: the connection to the model is closed; what was said stays, and so does what is being written."""
    async with visit.chatting([Say("endless"), Hang()]) as server:
        chat = await visit(server.url)
        await chat.say("go")
        await chat.answered("endless")
        await chat.box.fill("and another thing")
        await expect(chat.button("Send")).to_be_enabled()
        await chat.button("Stop").click()
        await chat.sees("Stopped")
        assert await server.chaos.seen.until_closed(1) in {ClosedBy.PEER, ClosedBy.PEER_RESET}
        await chat.answered("endless")
        await expect(chat.button("Send")).to_be_visible()
        await expect(chat.box).to_have_value("and another thing")


async def test_escape_stops_the_run_if_it_is_pressed_twice_and_closes_nothing(visit: Visit) -> None:
    """A dialog, a menu, the timeline and the search take the key for themselves, one after the other."""
    async with visit.chatting([Say("endless"), Hang()]) as server:
        chat = await visit(server.url)
        await chat.say("go")
        await chat.answered("endless")
        hint = chat.page.get_by_text("Press Esc again to stop")
        await chat.button("Settings").click()
        await expect(chat.page.get_by_role("dialog", name="Settings")).to_be_visible()
        await chat.page.keyboard.press("Escape")
        await expect(chat.page.get_by_role("dialog")).to_have_count(0)
        await expect(hint).to_have_count(0)
        await chat.page.get_by_role("button", name="Options for go").click()
        await chat.page.keyboard.press("Escape")
        await expect(chat.page.get_by_role("menu")).to_have_count(0)
        await chat.button("Timeline").click()
        await chat.page.get_by_role("combobox", name="Timeline scope").focus()
        await chat.page.keyboard.press("Escape")
        await expect(chat.page.get_by_role("complementary", name="Timeline")).to_have_count(0)
        await chat.page.get_by_role("searchbox", name="Search chats").focus()
        await chat.page.keyboard.press("Escape")
        await chat.page.get_by_role("link", name="go").focus()
        await chat.page.keyboard.press("F2")
        await chat.page.get_by_role("textbox", name="Chat title").press("Escape")
        await expect(hint).to_have_count(0)
        await expect(chat.button("Stop")).to_be_enabled()
        # a key that is held down is pressed once
        await chat.box.focus()
        async with moment(chat.page):
            for _ in range(3):
                await chat.page.keyboard.down("Escape")
            await expect(hint).to_be_visible()
            await expect(chat.button("Stop")).to_be_enabled()
            await chat.page.keyboard.up("Escape")
            await chat.box.fill("words")
            await chat.page.keyboard.press("Escape")
        await chat.sees("Stopped")
        await expect(hint).to_have_count(0)
        await expect(chat.box).to_have_value("words")


async def test_a_message_sent_while_offline_arrives_once_when_the_network_is_back(visit: Visit) -> None:
    """P2: the text is kept in the browser until the server has it, and is no draft any more."""
    async with visit.chatting([Say("first")], [Say("second")]) as server:
        chat = await visit(server.url)
        await chat.say("one")
        await chat.answered("first")
        await chat.mark()
        async with chat.page.expect_response(is_draft("precious words"), timeout=30_000):
            await chat.box.fill("precious words")
        await chat.page.context.set_offline(offline=True)
        await chat.state("Offline")
        async with chat.page.expect_event("requestfailed", lambda failed: "/draft" in failed.url):
            await chat.box.press("Enter")
        await expect(chat.people.last).to_contain_text("precious words")
        await expect(chat.people.last.get_by_role("alert")).to_contain_text("Not sent yet.")
        await expect(chat.people.last.get_by_role("alert")).to_contain_text(
            "It will be sent when the server accepts it."
        )
        async with chat.page.expect_response(is_draft(""), timeout=30_000):
            await chat.page.context.set_offline(offline=False)
        await chat.answered("second")
        other = await visit(chat.page.url)
        await other.answered("second")
        await expect(other.box).to_have_value("")
        await expect(chat.people).to_have_count(2)
        assert await chat.was_not_reloaded()
        assert len(server.chaos.seen.requests) == 2


async def test_a_server_on_this_machine_is_not_offline_without_a_network(visit: Visit) -> None:
    """The browser knows of cables; whether the server answers is told by the line to it alone."""
    gate = Gate()
    async with visit.chatting([Say("one "), Wait(gate), Say("two")]) as server:
        chat = await visit(server.url)
        await chat.say("count")
        await chat.answered("one")
        await chat.state("saved · ")
        await chat.page.evaluate(
            """() => {
              Object.defineProperty(navigator, 'onLine', {value: false});
              dispatchEvent(new Event('offline'));
            }"""
        )
        await chat.state("saved · ")
        gate.open()
        await chat.answered("one two")
        await chat.state("saved · ")
        await chat.page.evaluate(
            """() => {
              window.told = [];
              const look = () => told.push(document.querySelector('.connection')?.textContent ?? '');
              new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
            }"""
        )
        await chat.button("New chat").click()
        await chat.rows.first.click()
        await chat.answered("one two")
        await chat.state("saved · ")
        assert not [words for words in await chat.page.evaluate("() => told") if "Offline" in words]


async def test_a_seventh_tab_works_although_a_browser_opens_six_connections(visit: Visit) -> None:
    """P10: most tabs that nobody looks at let their stream go, and catch up when they are looked at."""
    async with visit.chatting([Say("one")], [Say("two")]) as server:
        first = await visit(server.url)
        await first.say("hello")
        await first.answered("one")
        await show(first, "hidden")
        tabs = [first]
        for _ in range(5):
            tab = await visit(first.page.url, first.page.context)
            await tab.answered("one")
            await show(tab, "hidden")
            tabs.append(tab)
        for tab in tabs:  # also when the network comes back, which all of them hear
            await tab.page.evaluate("() => void dispatchEvent(new Event('online'))")
        seventh = await visit(first.page.url, first.page.context)
        await seventh.say("and now?")
        await seventh.answered("two")
        await show(tabs[-1], "visible")
        await tabs[-1].answered("two")  # fails if it never catches up


async def show(chat: Chat, how: str) -> None:
    """A browser without a screen shows all tabs at once, so it is told otherwise."""
    await chat.page.evaluate(
        """how => {
          Object.defineProperty(document, 'visibilityState', {value: how, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        how,
    )
