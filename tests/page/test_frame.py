"""What stands around the talk: the timeline, menus and their focus, settings, and calls to a hidden tab."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Drop, Gate, Say, SayWords, Wait
from page.browsing import Visit, moment, requests_of
from page.long_log import put_long_session
from server.toolbox import Counted
from serving import AsksAbout, Setting
from stores import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

HIDDEN_AND_TOLD = """
Object.defineProperty(document, "hidden", { get: () => true });
window.told = [];
window.Notification = class {
  static permission = "granted";
  constructor(title, { body }) { window.told.push(`${title}: ${body}`); }
};
"""


async def test_the_frame_stands_in_the_chosen_theme_before_the_script_has_run(visit: Visit) -> None:
    async with visit.chatting() as server:
        chat = await visit(server.url, color_scheme="light")
        for sidebar, brands in (("open", 1), ("closed", 0)):
            kept = json.dumps({"theme": "dark", "sidebar": sidebar})
            await chat.page.evaluate("kept => localStorage.setItem('holdfast.settings', kept)", kept)
            await chat.page.route("**/assets/main-*.js", lambda route: route.abort("aborted"))
            await chat.page.reload()
            await expect(chat.page.locator("html")).to_have_attribute("data-theme", "dark")
            await expect(chat.page.locator(".shell")).to_have_count(1)
            await expect(chat.page.locator(".brand:visible"), sidebar).to_have_count(brands)
            await chat.page.unroute_all()
            await chat.page.reload()
            await expect(chat.box).to_be_visible()
            await expect(chat.page.locator(".shell")).to_have_count(0)
            await expect(chat.page.locator(".brand:visible"), sidebar).to_have_count(brands)


async def test_the_timeline_is_the_log_itself_with_its_stumbles_marked(visit: Visit) -> None:
    """P9: what was quiet in the talk is all there, event by event, when someone looks."""
    async with visit.chatting([SayWords("half an", 0), Drop()], [Say("whole")]) as server:
        context = await visit.context(permissions=["clipboard-read", "clipboard-write"])
        chat = await visit(server.url, context)
        await chat.say("hello")
        await chat.answered("whole")
        await chat.button("Timeline").click()
        panel = chat.page.get_by_role("complementary", name="Timeline")
        await expect(panel.get_by_role("figure").get_by_role("list")).to_contain_text("between attempts")
        await panel.get_by_role("button", name=re.compile("Attempt failed")).click()
        event = panel.get_by_role("region", name=re.compile("^Event "))
        await expect(event).to_contain_text("attempt.failed")
        await expect(event).to_contain_text('"kind": "dropped"')

        await panel.get_by_role("searchbox", name="Filter events").fill("attempt.")
        await expect(panel.get_by_role("region", name="Events").get_by_role("listitem")).to_have_count(4)
        await panel.get_by_role("searchbox", name="Filter events").fill("")
        async with moment(chat.page):
            await panel.get_by_role("button", name="Copy JSON").click()
            await expect(panel.get_by_role("button", name="Copied")).to_be_visible()
        copied = json.loads(await chat.page.evaluate("navigator.clipboard.readText()"))
        run_id = copied[0]["run_id"]
        _, log = await server.served.get(f"/v1/runs/{run_id}/events?view=native&cursor=0")
        assert copied == log["events"]


async def test_the_timeline_follows_a_run_that_goes_on_and_gives_the_focus_back(visit: Visit) -> None:
    """P7: the log grows in the panel as it grows on disk; where it lies over the chat, it has the focus."""
    gate = Gate()
    async with visit.chatting([Say("half"), Wait(gate), Say(" and whole")]) as server:
        chat = await visit(server.url)
        await chat.say("hello")
        await chat.answered("half")
        await chat.page.keyboard.press("Alt+t")
        events = chat.page.get_by_role("complementary", name="Timeline").get_by_role("region", name="Events")
        await expect(events).to_contain_text("text.delta")
        await expect(events).not_to_contain_text("run.ended")
        gate.open()
        await chat.answered("half and whole")
        await events.evaluate("box => { box.scrollTop = box.scrollHeight; }")
        await expect(events).to_contain_text("text.done")
        await events.evaluate("box => { box.scrollTop = box.scrollHeight; }")
        await expect(events).to_contain_text("run.ended")
        await chat.page.keyboard.press("Alt+t")
        await expect(events).to_have_count(0)
        await chat.page.set_viewport_size({"width": 1000, "height": 700})
        await chat.page.keyboard.press("Alt+t")
        await expect(chat.button("Close timeline")).to_be_focused()
        await chat.page.keyboard.press("Escape")
        await expect(chat.button("Close timeline")).to_have_count(0)
        await expect(chat.button("Timeline")).to_be_focused()


async def test_a_log_of_any_length_is_read_in_pages_and_shown_in_part(visit: Visit) -> None:
    store = MemoryStore()
    await put_long_session(store, "long", exchanges=300)
    async with visit.chatting(setting=Setting(store=store)) as server:
        chat = await visit(f"{server.url}/s/long")
        await chat.sees("Question 300: where does the time go?")
        await chat.button("Timeline").click()
        panel = chat.page.get_by_role("complementary", name="Timeline")
        await panel.get_by_role("combobox", name="Timeline scope").select_option("Whole chat")
        await expect(panel).to_contain_text(re.compile(r"1.000 events"))
        assert await panel.get_by_role("listitem").count() < 100
        await panel.get_by_role("button", name="Earlier events, up to 2001").click()
        await expect(panel).to_contain_text(re.compile(r"2.000 events"))
        await expect(panel.get_by_role("button", name="Earlier events, up to 1001")).to_be_visible()
    await store.close()


# A browser reports what was closed a few frames later, also to an element that is gone.
LATE_TOGGLE = (
    "menu => menu.dispatchEvent(new ToggleEvent('toggle', { oldState: 'open', newState: 'closed' }))"
)
LATE_CLOSE = "dialog => dialog.dispatchEvent(new Event('close'))"


async def test_a_menu_closes_on_its_own_button_and_gives_the_focus_back(visit: Visit) -> None:
    async with visit.chatting([Say("one")], [Say("two")]) as server:
        chat = await visit(server.url)
        await chat.say("first chat")
        await chat.answered("one")
        await chat.button("New chat").click()
        await chat.say("second chat")
        await chat.answered("two")
        await expect(chat.rows).to_have_count(2)
        keys, menu = chat.page.keyboard, chat.page.get_by_role("menu")
        button = chat.button("Options for second chat")
        await button.click()
        await expect(menu).to_be_visible()
        gone = await menu.element_handle()
        await button.click()
        await expect(menu).to_have_count(0)

        await chat.rows.first.get_by_role("link").focus()
        await keys.press("ArrowRight")
        await keys.press("Enter")
        await expect(menu.get_by_role("menuitem", name="Rename")).to_be_focused()
        await keys.press("Escape")
        await expect(button).to_be_focused()
        await keys.press("Enter")
        await gone.evaluate(LATE_TOGGLE)
        await expect(menu.get_by_role("menuitem", name="Rename")).to_be_focused()
        await keys.press("Enter")
        await expect(chat.page.get_by_role("textbox", name="Chat title")).to_be_focused()
        await keys.type("renamed by hand")
        await keys.press("Enter")
        await expect(chat.page).to_have_title("renamed by hand · Holdfast")
        await expect(chat.rows.first.get_by_role("link")).to_be_focused()
        await keys.press("ArrowDown")
        await keys.press("ArrowRight")
        await keys.press("Enter")
        await expect(menu.get_by_role("menuitem", name="Rename")).to_be_focused()
        await keys.press("End")
        await keys.press("Enter")
        await expect(chat.rows).to_have_count(1)
        await expect(chat.rows.first.get_by_role("link")).to_be_focused()


async def test_a_row_that_moves_to_another_group_keeps_the_focus_and_what_is_typed(visit: Visit) -> None:
    async with visit.chatting([Say("hello")]) as server:
        chat = await visit(server.url)
        await chat.say("my chat")
        await chat.answered("hello")
        link, keys = chat.rows.get_by_role("link"), chat.page.keyboard
        session = (await link.get_attribute("href") or "").rpartition("/")[2]
        pinned, today = (chat.page.get_by_role("region", name=name) for name in ("Pinned", "Today"))
        await link.focus()
        for key in ("ArrowRight", "Enter", "p", "Enter"):
            await keys.press(key)
        await expect(pinned).to_be_visible()
        await expect(chat.button("Options for my chat")).to_be_focused()
        await keys.press("ArrowLeft")
        await keys.press("F2")
        field = chat.page.get_by_role("textbox", name="Chat title")
        await expect(field).to_be_focused()
        for group, text in ((today, "an"), (pinned, "other "), (today, "title")):
            await keys.type(text)
            await server.served.call("PATCH", f"/api/sessions/{session}", body={"pinned": group is pinned})
            await expect(group.get_by_role("textbox")).to_be_focused()
        await keys.press("Enter")
        await expect(link).to_contain_text("another title")
        await expect(link).to_be_focused()
        await server.served.call("PATCH", f"/api/sessions/{session}", body={"pinned": True})
        await expect(pinned.get_by_role("link")).to_be_focused()


async def test_settings_are_kept_and_a_dialog_gives_the_focus_back(visit: Visit) -> None:
    """Also a dialog whose part of the page couldn't be fetched at first; that says what to do."""
    async with visit.chatting([Say("hello")]) as server:
        chat = await visit(server.url)
        button = chat.button("Settings")
        await chat.page.route("**/assets/panels-*.css", lambda route: route.abort("connectionrefused"))
        await button.click()
        trouble = chat.page.get_by_role("dialog", name="Couldn't load this part of the page")
        await expect(trouble).to_contain_text("reload the page")
        await trouble.get_by_role("button", name="Close").click()
        await expect(trouble).to_be_hidden()
        await chat.page.unroute_all()
        await button.focus()
        await chat.page.keyboard.press("Enter")
        dialog = chat.page.get_by_role("dialog", name="Settings")
        gone = await dialog.element_handle()
        await chat.page.keyboard.press("Escape")
        await expect(button).to_be_focused()
        await chat.page.keyboard.press("Enter")
        await expect(dialog).to_be_visible()
        await gone.evaluate(LATE_CLOSE)
        await dialog.get_by_text("Dark").click()
        await dialog.get_by_text("Ctrl + Enter").click()
        await chat.page.keyboard.press("Escape")
        await expect(button).to_be_focused()
        await chat.page.reload()
        await expect(chat.page.locator("html")).to_have_attribute("data-theme", "dark")
        await chat.box.fill("one line")
        await chat.box.press("Enter")
        await expect(chat.people).to_have_count(0)
        await chat.box.press("Control+Enter")
        await chat.answered("hello")


COMPOSING: tuple[dict[str, object], ...] = ({"isComposing": True}, {"keyCode": 229})  # the latter in Safari
COMPOSED = """(field, how) => {
  for (const key of ['Enter', 'Escape']) {
    const press = new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true, ...how});
    field.dispatchEvent(press);
  }
}"""


async def test_keys_that_put_letters_together_end_no_editing(visit: Visit) -> None:
    async with visit.chatting([Say("one")]) as server:
        chat = await visit(server.url)
        asked = requests_of(chat.page)
        await chat.say("first chat")
        await chat.answered("one")
        await chat.people.last.hover()
        await chat.button("Edit and resend").click()
        editing = chat.page.get_by_role("article", name="Edit your message")
        for how in COMPOSING:
            await editing.get_by_role("textbox").evaluate(COMPOSED, how)
            await expect(editing).to_be_visible()
        await editing.get_by_role("button", name="Cancel").click()
        await chat.button("Options for first chat").click()
        await chat.page.get_by_role("menuitem", name="Rename").click()
        title = chat.page.get_by_role("textbox", name="Chat title")
        for how in COMPOSING:
            await title.evaluate(COMPOSED, how)
            await expect(title).to_be_visible()
        assert not [url for url in asked if url.endswith("/rewind")]


async def test_a_title_that_was_left_as_it_stood_is_not_stored(visit: Visit) -> None:
    """A chat without one goes on being named by what was said last, which is shown on one line here."""
    gate = Gate()
    async with visit.chatting([Wait(gate)]) as server:
        await server.served.start("first\nchat", session_id="untitled")
        await server.served.call("PATCH", "/api/sessions/untitled", body={"title": ""})
        chat = await visit(server.url)
        stored: list[str] = []
        chat.page.on(
            "request", lambda asked: stored.extend([asked.post_data or ""] * (asked.method == "PATCH"))
        )
        title = chat.page.get_by_role("textbox", name="Chat title")
        for name in ("", "another name"):
            await chat.button("Options for first chat").click()
            await chat.page.get_by_role("menuitem", name="Rename").click()
            if name:
                await title.fill(name)
            await title.press("Enter")
            await expect(title).to_have_count(0)
        await expect(chat.rows).to_contain_text("another name")
        assert stored == ['{"title":"another name"}']


async def test_on_paper_stands_the_talk_alone_and_whole(visit: Visit) -> None:
    scripts = ([CallTool("touch", {"path": "a.txt"}), CallTool("touch", {"path": "b.txt"})], [Say("done")])
    async with visit.chatting(*scripts, setting=Setting(tools=(Counted(),))) as server:
        chat = await visit(server.url)
        await chat.say("do it\n" * 60)
        await chat.answered("done")
        await chat.talk.get_by_role("group", name="Activity").get_by_role("button").click()
        await chat.button("Timeline").click()
        panel, tool = chat.page.locator(".panel"), chat.talk.get_by_text("b.txt")
        await expect(panel).to_be_visible()
        await expect(tool).to_be_visible()
        await chat.page.emulate_media(media="print")
        await expect(panel).to_be_hidden()
        await expect(tool).to_be_visible()
        cut = await chat.page.locator(".said").evaluate("said => said.scrollHeight - said.clientHeight")
        assert cut <= 1  # a pixel may be rounded


async def test_a_hidden_tab_tells_that_someone_is_needed_and_that_it_is_done(visit: Visit) -> None:
    """P8: an approval calls for a person who looks elsewhere.

    A browser that refuses notifications isn't asked again: on phones it has the name and the permission, and
    raises; the talk goes on.
    """
    gate = Gate()
    scripts = ([CallTool("touch", {"path": "a"})], [Say("touched")], [Say("one "), Wait(gate), Say("two")])
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await chat.button("Settings").click()
        await chat.page.evaluate(
            "localStorage.setItem('holdfast.settings', JSON.stringify({notifications: true}))"
        )
        await chat.page.add_init_script(HIDDEN_AND_TOLD)
        await chat.page.reload()
        await chat.say("do it")
        await expect(chat.page).to_have_title(re.compile(r"^\(1\) "))
        card = chat.page.get_by_role("region", name="Approval needed")
        await card.get_by_role("button", name="once").click()
        await chat.answered("touched")
        await expect(chat.page).to_have_title(re.compile(r"^do it"))
        await chat.page.wait_for_function("() => window.told.length === 2", timeout=30_000)
        assert await chat.page.evaluate("window.told") == [
            "do it: Needs your answer.",
            "do it: Finished.",
        ]
        await chat.page.evaluate("() => { told.push = () => { throw new TypeError(); }; }")
        await chat.say("hello")
        await chat.answered("one")
        gate.open()
        await chat.answered("one two")
        off = "() => !JSON.parse(localStorage.getItem('holdfast.settings')).notifications"
        await chat.page.wait_for_function(off, timeout=30_000)  # fails if it stays on


async def test_panels_and_colours_are_fetched_when_they_are_first_needed(visit: Visit) -> None:
    async with visit.chatting([Say("```python\nreturn 1\n```")]) as server:
        context = await visit.context()
        await context.clock.set_fixed_time(datetime.now(UTC))  # a run that seems silent has more to fetch
        chat = await visit("about:blank", context)
        asked = requests_of(chat.page)
        await chat.page.goto(server.url)
        await expect(chat.box).to_be_focused()
        fetched = {url for url in asked if "/assets/" in url}
        await chat.say("Show me code.")
        await expect(chat.page.locator(".sh-keyword")).to_have_text("return")
        assert {Path(url).name.partition("-")[0] for url in set(asked) - fetched if "/assets/" in url} == {
            "highlight"
        }
        await chat.button("Settings").click()
        await expect(chat.page.get_by_role("dialog", name="Settings")).to_be_visible()
        assert any("/assets/panels-" in url for url in asked)
        assert not any("/assets/panels-" in url for url in fetched)
