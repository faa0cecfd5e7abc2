"""The page for everyone and against everyone: hostile words, screen readers, keyboards, phones."""

import re

import pytest
from playwright.async_api import ViewportSize, expect

from holdfast.chaos import CallTool, Gate, Say, Think, Wait, bad_key
from page.browsing import Chat, Visit, faults_of, requests_of
from server.toolbox import Counted
from serving import AsksAbout, Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = """<script>document.title = 'owned'</script>
<img src=x onerror="document.title='owned'"><svg onload="document.title='owned'">
<iframe srcdoc="<script>parent.document.title='owned'</script>"></iframe>
[click](javascript:document.title='owned') [data](data:text/html,<script>1</script>)
![remote](https://tracker.invalid/pixel.png) <style>body{display:none}</style>
<a href="javascript:1" onmouseover="document.title='owned'">x</a> `</code><script>1</script>`
"""
HARM = (
    "script, iframe, style, object, embed, [onerror], [onload], [onmouseover], "
    "[href^='javascript' i], [href^='data' i]"
)
RICH = """# Heading\n\nSome *words* and a [link](https://example.com/).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n
1. one\n2. two\n\n```python\nprint("hello")\n```\n\n- [x] done\n"""


async def test_hostile_words_of_model_tool_and_person_stay_words(visit: Visit) -> None:
    """P11: no script runs, nothing is asked for from elsewhere, no link leads to a script."""
    async with visit.chatting([Think(HOSTILE), Say(HOSTILE)]) as server:
        chat = await visit(server.url)
        asked = requests_of(chat.page)
        await chat.say(HOSTILE)
        await expect(chat.answers.last).to_contain_text("remote")
        await chat.is_over()
        await expect(chat.talk).to_contain_text("<script>document.title = 'owned'</script>")
        assert "owned" not in await chat.page.title() or "<script>" in await chat.page.title()
        assert await chat.page.locator("body").locator(HARM).count() == 0
        assert await chat.answers.locator("[style]").count() == 0
        assert [url for url in asked if not url.startswith(server.url)] == []


async def test_nobody_is_kept_out_by_the_page(visit: Visit) -> None:
    """Axe finds no serious fault in a talk, at an approval and in the settings, on a desk and on a phone.

    Neither in light colours nor in dark ones.
    """
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    scripts = ([Think("hm"), Say(RICH)], [CallTool("touch", {"path": "a"})])
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await _accessible(chat)
        await chat.say("show me")
        await chat.sees("Heading")
        await chat.say("do it")
        await expect(chat.page.get_by_role("region", name="Approval needed")).to_be_visible()
        await _accessible(chat)
        await chat.button("Settings").click()
        await expect(chat.page.get_by_role("dialog")).to_be_visible()
        await _accessible(chat)
        phone = await visit(chat.page.url, viewport={"width": 390, "height": 844}, has_touch=True)
        await expect(phone.page.get_by_role("region", name="Approval needed")).to_be_visible()
        await _accessible(phone)


# Also without motion, colours change a frame later.
COLOURED = """() => Promise.allSettled(
  document.getAnimations().filter(one => one instanceof CSSTransition).map(one => one.finished))"""


async def _accessible(chat: Chat) -> None:
    """Only contrast depends on the colours."""
    await chat.page.emulate_media(color_scheme="dark")
    await chat.page.evaluate(COLOURED)
    assert await faults_of(chat.page, "color-contrast", "link-in-text-block") == []
    await chat.page.emulate_media(color_scheme="light")
    await chat.page.evaluate(COLOURED)
    assert await faults_of(chat.page) == []


async def test_the_keyboard_alone_is_enough(visit: Visit) -> None:
    gate = Gate()
    async with visit.chatting([Say("one"), Wait(gate)], [Say("two")]) as server:
        chat = await visit(server.url)
        keys = chat.page.keyboard
        await expect(chat.box).to_be_focused()
        await keys.type("hello")
        await keys.press("Enter")
        await chat.answered("one")
        await keys.press("Control+.")
        await chat.sees("Stopped")
        await keys.press("Control+Shift+O")
        await expect(chat.people).to_have_count(0)
        await expect(chat.box).to_be_focused()
        await keys.type("again")
        await keys.press("Enter")
        await chat.answered("two")
        await keys.press("Alt+ArrowDown")
        await chat.answered("one")
        await keys.press("Control+k")
        await expect(chat.page.get_by_role("searchbox", name="Search chats")).to_be_focused()
        await keys.press("Escape")
        await keys.press("Control+/")
        await expect(chat.page.get_by_role("dialog")).to_contain_text("Stop the run")
        await keys.press("Escape")
        await expect(chat.page.get_by_role("dialog")).to_have_count(0)


# Presses a key, and says where the very next one would go.
NEXT_KEY = """key => new Promise(tell => {
  document.body.dispatchEvent(new KeyboardEvent('keydown', {...key, bubbles: true, cancelable: true}));
  const later = new MessageChannel();
  later.port1.onmessage = () => tell(document.activeElement.id);
  later.port2.postMessage(0);
})"""


async def test_single_keys_lead_somewhere_at_once_until_they_are_switched_off(visit: Visit) -> None:
    """A letter must not be taken for a single key because its field has not got the caret yet.

    WCAG 2.1.4: whoever speaks to the machine, or hits keys by mistake, can do without them.
    """
    async with visit.chatting([Say("one")]) as server:
        chat = await visit(server.url)
        await chat.say("hello")
        await chat.answered("one")
        await chat.box.blur()
        assert await chat.page.evaluate(NEXT_KEY, {"key": "k", "ctrlKey": True}) == "search"
        await chat.page.get_by_role("searchbox", name="Search chats").blur()
        assert await chat.page.evaluate(NEXT_KEY, {"key": "n"}) == "composer"
        await chat.page.keyboard.type("note?")
        await expect(chat.people).to_have_count(0)
        await expect(chat.box).to_have_value("note?")
        keys = chat.page.keyboard
        await chat.box.blur()
        await keys.press("?")
        help_ = chat.page.get_by_role("dialog", name="Commands and shortcuts")
        await expect(help_).to_be_visible()
        await keys.press("Escape")
        await expect(help_).to_have_count(0)
        await keys.press("Control+,")
        switch = chat.page.get_by_role("switch", name=re.compile("Single-key"))
        await switch.click()
        await expect(switch).not_to_be_checked()
        await keys.press("Escape")
        await expect(switch).to_have_count(0)
        await chat.page.reload()
        await expect(chat.box).to_be_focused()
        await chat.box.blur()
        await keys.press("?")
        await keys.press("/")
        await keys.press("Control+/")
        await expect(help_).to_contain_text("are off")
        await expect(help_.get_by_text("Search chats")).to_be_visible()
        await expect(chat.page.get_by_role("searchbox", name="Search chats")).not_to_be_focused()


# What is inside of a label is as large as the label is; what is above the window comes down with the focus.
TOO_SMALL = """[...document.querySelectorAll('button, label, [role=button], input, textarea')]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().bottom > 0 && !one.matches('label *'))
  .map(one => [one.getAttribute('aria-label') || one.textContent, one.getBoundingClientRect()])
  .filter(([, box]) => box.height < 43.5 || box.width < 43.5)
  .map(([name, box]) => `${name} ${box.width}x${box.height}`)"""


async def test_on_a_phone_the_list_is_a_drawer_and_every_button_has_room_for_a_finger(visit: Visit) -> None:
    async with visit.chatting([Say("small screen\n\n```python\nx = 1\n```")], [bad_key()]) as server:
        phone = await visit(
            server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
        )
        await phone.box.fill("hello")
        await phone.button("Send").tap()  # Enter is a new line there
        await expect(phone.answers.last).to_contain_text("small screen")
        await phone.box.fill("and now?")
        await phone.button("Send").tap()
        await phone.button("Details").tap()
        await phone.is_over()  # until then there is no room for the chips
        assert await phone.page.evaluate(TOO_SMALL) == []
        wide = await phone.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide
        await phone.page.get_by_role("button", name=re.compile("Show chats")).first.tap()
        await expect(phone.rows).to_have_count(1)
        await phone.rows.first.get_by_role("link").tap()
        assert await phone.page.evaluate(TOO_SMALL) == []
        await phone.button("Show chats").tap()
        await phone.button("Settings").tap()
        await expect(phone.page.get_by_role("dialog", name="Settings")).to_be_visible()
        assert await phone.page.evaluate(TOO_SMALL) == []


async def test_the_drawer_of_a_phone_leaves_the_list_of_a_wide_window_as_it_was(visit: Visit) -> None:
    """A phone that is turned, or a window that is made wide while the list lies over the chat."""
    narrow, wide = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=800)
    async with visit.chatting() as server:
        chat = await visit(server.url, viewport=narrow)
        listed = chat.page.get_by_role("navigation", name="Chats")
        for leave in (True, False):
            await chat.page.set_viewport_size(narrow)
            await chat.button("Show chats").click()
            if leave:
                await listed.get_by_role("button", name="New chat").click()
                await expect(listed).to_have_count(0)
            await chat.page.set_viewport_size(wide)
            await expect(listed).to_be_visible()
            await chat.page.reload()
            await expect(chat.box).to_be_visible()
            await expect(listed).to_be_visible()


async def test_what_is_long_or_runs_from_right_to_left_has_its_place(visit: Visit) -> None:
    name = "a_tool_with_a_name_that_never_ends_" + "x" * 29
    answer = "1. שלום\n2. עולם\n\n> ציטוט\n\n- hello"
    setting = Setting(tools=(Counted(name),))
    async with visit.chatting(
        [CallTool(name, {"path": "p" * 300})], [Say(answer)], setting=setting
    ) as server:
        chat = await visit(server.url, viewport={"width": 390, "height": 844})
        await chat.say("W" * 300)
        await expect(chat.answers.last.locator("ol")).to_have_css("direction", "rtl")
        await expect(chat.answers.last.locator("blockquote")).to_have_css("direction", "rtl")
        await expect(chat.answers.last.locator("ul")).to_have_css("direction", "ltr")
        activity = chat.talk.get_by_role("group", name="Activity").get_by_role("button")
        await activity.click()
        for row in await activity.all():
            last = row.locator("svg").last  # the mark that it opens
            await expect(last).to_be_in_viewport(ratio=1)
        wide = await chat.talk.evaluate("box => box.scrollWidth > box.clientWidth")
        assert not wide
