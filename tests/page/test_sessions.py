"""Sessions on the page: a long one, the list, search, and what one does to a session."""

import re

import pytest
from playwright.async_api import Locator, expect

from holdfast.chaos import Say
from page.browsing import Chat, Visit
from page.long_log import put_long_session
from serving import Setting, said_to
from stores import MemoryStore

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]


async def test_a_session_of_five_thousand_messages_opens_at_its_end_and_is_read_upwards(visit: Visit) -> None:
    """P7: the newest page comes first, older ones on the way up, and the talk goes on below."""
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=2_500)
    setting = Setting(store=store)
    async with visit.chatting([Say("still here")], setting=setting) as server:
        chat = await visit(f"{server.url}/s/long")
        await chat.sees("Question 2500: where does the time go?")
        assert await chat.talk.get_by_role("article").count() < 300
        await expect(chat.page.get_by_text("Question 2300:")).to_have_count(0)
        await scroll_until(chat, "Question 2300:", by=-2000)
        await chat.button("Jump to the newest message").click()
        await chat.say("are you there?")
        await chat.answered("still here")
        # What was read far above is let go again, and the page is light.
        await expect(chat.page.get_by_text("Question 2300:")).to_have_count(0)
    await store.close()


async def test_a_search_leads_to_the_message_itself_however_far_above_it_stands(visit: Visit) -> None:
    """P7: the chat opens there, marked and with the focus, and is not pulled to its end."""
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=300)
    async with visit.chatting([Say("still here")], setting=Setting(store=store)) as server:
        chat = await visit(server.url)
        await chat.page.get_by_role("searchbox", name="Search chats").fill("question 7")
        hit = chat.page.get_by_role("link", name=re.compile("A long talk"))
        await hit.click()
        await expect(chat.page.locator(".talk-row:focus")).to_have_text(re.compile("^Question 79: where"))
        await expect(chat.talk.get_by_text("Question 79: where does")).to_be_in_viewport()
        address = await hit.get_attribute("href")
        await chat.button("Jump to the newest message").click()
        await chat.say("are you there?")
        await chat.answered("still here")
        await hit.click()
        await expect(chat.talk.get_by_text("Question 79: where does")).to_be_in_viewport()
        # Whoever comes there again by scrolling is not pulled to it.
        await chat.button("Jump to the newest message").click()
        await expect(chat.talk.get_by_text("Question 79: where does")).to_have_count(0)
        await scroll_until(chat, "Question 79: where does", by=-2000)
        await expect(chat.page.locator(".talk-row:focus")).to_have_count(0)
        # The address of a hit is good for another tab, too.
        other = await visit(f"{server.url}{address}")
        await expect(other.talk.get_by_text("Question 79: where does")).to_be_in_viewport()
        answer = await visit(f"{server.url}/s/long#at=78")
        await expect(answer.page.locator(".talk-row:focus")).to_contain_text("Answer 8: the order")
    await store.close()


# Both scroll inside the page: a call from here for each step takes longer than the step.
SCROLL_UNTIL = """async (box, {text, by}) => {
  for (let steps = 0; steps < 1000 && !box.textContent.includes(text); steps++) {
    box.scrollBy(0, by);
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
}"""
SCROLL_BY = """async (box, steps) => {
  for (const by of steps) {
    box.scrollBy(0, by);
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
}"""


async def scroll_until(chat: Chat, text: str, *, by: int) -> Locator:
    """Scrolls until the text is on the page, as a reader would who looks for it."""
    await chat.talk.evaluate(SCROLL_UNTIL, {"text": text, "by": by})
    wanted = chat.talk.get_by_text(text)
    await expect(wanted).to_have_count(1)
    return wanted


async def scroll_away_and_back(chat: Chat) -> None:
    await chat.talk.evaluate(SCROLL_BY, [*([-500] * 20), *([500] * 20)])


READ_ALL = """async box => {
  while (document.querySelector('.above')) {
    box.scrollTop = 0;
    await new Promise(done => setTimeout(done, 20));
  }
}"""


async def test_what_is_far_out_of_sight_leaves_the_page_and_its_room_stays(visit: Visit) -> None:
    """P7: what stands above the window is the server's to say; a tab that only watches sees a rewind."""
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=300)
    async with visit.chatting(setting=Setting(store=store)) as server:
        chat = await visit(f"{server.url}/s/long")
        await chat.sees("Question 300: where does the time go?")
        await chat.talk.evaluate(READ_ALL)
        await chat.sees("Question 1: where does the time go?")
        await expect(chat.page.get_by_text("Question 150:")).to_have_count(0)
        middle = await scroll_until(chat, "Question 100:", by=2000)
        await scroll_away_and_back(chat)  # heights are known of what was seen
        await middle.scroll_into_view_if_needed()
        before = await middle.bounding_box()
        await scroll_away_and_back(chat)
        await expect(middle).to_be_in_viewport()
        after = await middle.bounding_box()
        assert before is not None
        assert after is not None
        assert abs(after["y"] - before["y"]) < 2
        await chat.button("Jump to the newest message").click()
        await chat.sees("Question 300: where does the time go?")
        await chat.page.reload()  # only the window is in the page again
        await chat.sees("Question 300: where does the time go?")
        await chat.mark()
        await server.served.post("/api/sessions/long/rewind", {"to_seq": 101})
        await chat.sees("Question 10: where does the time go?")
        await expect(chat.people).to_have_count(10)
        assert await chat.was_not_reloaded()
    await store.close()


async def test_a_chat_is_renamed_pinned_found_archived_deleted_and_brought_back(visit: Visit) -> None:
    async with visit.chatting(
        [Say("the *word* is **marmalade**")], [Say("see [this](https://x.y/quince)")]
    ) as server:
        chat = await visit(server.url)
        await chat.say("first chat")
        await chat.answered("the word is marmalade")
        await chat.button("New chat").click()
        await chat.say("second chat")
        await chat.answered("see this")
        await expect(chat.rows).to_have_count(2)

        await chat.page.get_by_role("searchbox", name="Search chats").fill("quince")
        await expect(chat.page.locator("mark")).to_have_text("quince")

        await chat.page.get_by_role("searchbox", name="Search chats").fill("marmalade")
        found = chat.page.get_by_role("link", name=re.compile("first chat"))
        await expect(found.locator("mark")).to_have_text("marmalade")
        await expect(found.locator(".hit-passage")).to_have_text("the word is marmalade")
        await found.click()
        await chat.answered("the word is marmalade")
        await chat.page.get_by_role("searchbox", name="Search chats").fill("")

        await chat.button("Options for first chat").click()
        await chat.page.get_by_role("menuitem", name="Pin").click()
        await expect(chat.page.get_by_role("region", name="Pinned")).to_contain_text("first chat")

        for title in ("second chat", "first chat"):  # the second one is open
            await chat.button(f"Options for {title}").click()
            await chat.page.get_by_role("menuitem", name="Delete").click()
            await expect(chat.rows).to_have_count(1)
            await chat.button("Undo").click()
            await expect(chat.rows).to_have_count(2)
        await chat.answered("the word is marmalade")


async def edit(chat: Chat, nth: int, text: str) -> None:
    """Say the nth message anew."""
    await chat.people.nth(nth).hover()
    await chat.people.nth(nth).get_by_role("button", name="Edit and resend").click()
    field = chat.page.get_by_role("article", name="Edit your message").get_by_role("textbox")
    await field.fill(text)
    await field.press("Enter")


async def test_any_message_is_edited_and_every_version_stays_in_reach(visit: Visit) -> None:
    scripts = [[Say(text)] for text in ("one", "two", "other two", "third two", "other one", "one anew")]
    async with visit.chatting(*scripts) as server:
        chat = await visit(server.url)
        await chat.say("first question")
        await chat.answered("one")
        await chat.say("second question")
        await chat.answered("two")
        await edit(chat, 1, "second question, rewritten")
        await chat.answered("other two")
        await expect(chat.people).to_have_count(2)
        assert said_to(server.chaos, nth=3) == ["first question", "one", "second question, rewritten"]
        versions = chat.people.last.get_by_role("group", name="Versions of this message")
        await expect(versions).to_contain_text("2/2")
        await expect(chat.rows).to_have_count(1)
        await expect(chat.rows).to_have_text(re.compile("^first question(?!.*version)"))
        await expect(chat.page).to_have_title("first question · Holdfast")
        # back, and there again; also after a reload
        await versions.get_by_role("button", name="Previous version").click()
        await chat.answered("two")
        await expect(versions).to_contain_text("1/2")
        await chat.page.reload()
        await expect(versions).to_contain_text("1/2")
        await versions.get_by_role("button", name="Next version").click()
        await chat.answered("other two")
        # a version of a version is one more beside both
        await edit(chat, 1, "second question, thrice")
        await chat.answered("third two")
        await expect(versions).to_contain_text("3/3")
        await expect(chat.rows).to_have_count(1)
        # an earlier message has versions of its own
        await edit(chat, 0, "another question")
        await chat.answered("other one")
        await expect(chat.people).to_have_count(1)
        await expect(versions).to_contain_text("2/2")
        await versions.get_by_role("button", name="Previous version").click()
        await chat.answered("third two")
        # an answer is made anew, and the first one stays
        await chat.page.get_by_role("button", name="Regenerate").first.click()
        await chat.answered("one anew")
        await expect(chat.answers).to_have_count(1)
        assert said_to(server.chaos, nth=6) == ["first question"]
        await chat.button("Previous version").click()
        await chat.answered("other one")
        await versions.get_by_role("button", name="Previous version").click()
        await chat.answered("third two")
        # they are known however far down the list of chats they are
        for _ in range(51):
            assert (await server.served.call("POST", "/api/sessions", body={"title": "newer"})).status == 201
        await chat.page.reload()
        await expect(chat.rows.first).to_contain_text("newer")
        await expect(versions).to_contain_text("3/3")
        # versions are no steps in the history: back leaves the chat (the reload is the one before)
        await chat.page.go_back()
        await expect(chat.page).to_have_url(f"{server.url}/")
