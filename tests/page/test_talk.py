"""The conversation itself: how an answer grows, how it is read, what is decided, how a run's end is told."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from holdfast.chaos import CallTool, Gate, Hang, Say, Wait, bad_key
from page.browsing import Visit, moment
from server.toolbox import Counted
from serving import AsksAbout, Setting, said_to

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(60))


MIXED = (
    "Plain words, **bold *and* more**, `code` with a [link](https://example.com/a), me@example.com, "
    "www.example.org and ![a picture](https://example.com/p.png); 2 * 3 * 4 &amp; ~~gone~~.<br>A new line.\n"
    "- an item with **bold**\n- and [example.com](https://example.net/)\n\n"
    "| a | `b` |\n|---|---|\n| **1** | 2 |\n\n## A *heading*\n\nThe **last words"
)


async def test_what_is_settled_is_never_rendered_again_while_the_answer_grows(visit: Visit) -> None:
    """And an answer that came in pieces is the same as one that is loaded whole."""
    gate = Gate()
    growing = [Say("# Title\n\nfirst *words*\n\n- one\n- tw"), Wait(gate), Say("o\n- three\n\nthe end")]
    async with visit.chatting(growing, [Say(MIXED, chunk_chars=7, pace_s=0.02)]) as server:
        chat = await visit(server.url)
        await chat.say("write")
        answer = chat.answers.last
        await expect(answer.get_by_role("listitem")).to_have_text(["one", "tw"])
        await answer.evaluate(
            "all => { window.parts = [all, ...all.querySelectorAll('h2, p em, li:first-child p')]; }"
        )
        gate.open()
        await expect(answer).to_contain_text("the end")
        await expect(chat.button("Regenerate")).to_be_visible()
        await expect(answer.get_by_role("listitem")).to_have_text(["one", "two", "three"])
        assert await chat.page.evaluate("window.parts.map(part => part.isConnected)") == [True] * 4
        await chat.say("mix it")
        await expect(chat.button("Regenerate")).to_have_count(2)
        grown = await chat.answers.last.inner_html()
        await chat.page.reload()
        await expect(chat.button("Regenerate")).to_have_count(2)
        assert await chat.answers.last.inner_html() == grown
        assert "</strong>" in grown
        assert '<span class="link-host"> (example.net)</span>' in grown


# How far it is scrolled, once the wheel has no more effect.
AT_REST = """box => new Promise(tell => {
  let [last, still] = [box.scrollTop, 0];
  const look = () => {
    still = box.scrollTop === last ? still + 1 : 0;
    last = box.scrollTop;
    if (still < 20) requestAnimationFrame(look);
    else tell(last);
  };
  look();
})"""


async def test_the_newest_line_is_followed_only_from_the_bottom(visit: Visit) -> None:
    first, second = Gate(), Gate()
    growing = [
        Say(LONG),
        Wait(first),
        Say(f"\n\n{LONG}\n\nsecond"),
        Wait(second),
        Say(f"\n\n{LONG}\n\nthird"),
    ]
    async with visit.chatting(growing) as server:
        chat = await visit(server.url)
        await chat.say("write much")
        await expect(chat.page.get_by_text("Paragraph 59 ")).to_be_in_viewport()
        first.open()
        await expect(chat.page.get_by_text("second", exact=True)).to_be_in_viewport()
        await chat.talk.hover()
        await chat.page.mouse.wheel(0, -900)
        jump = chat.button("Jump to the newest message")
        await expect(jump).to_be_visible()
        before = await chat.talk.evaluate(AT_REST)
        second.open()
        await expect(chat.page.get_by_text("third", exact=True)).to_have_count(1)
        await expect(chat.button("Regenerate")).to_have_count(1)
        assert await chat.talk.evaluate("box => box.scrollTop") == before
        await jump.click()
        await expect(chat.page.get_by_text("third", exact=True)).to_be_in_viewport()
        await expect(jump).to_have_count(0)


async def test_the_work_of_a_run_is_one_row_that_opens_to_what_went_in_and_came_out(visit: Visit) -> None:
    """P4, P9: a failure gives its cause and its trace, and can be tried again; attempts aren't shown."""
    tools = [CallTool("touch", {"path": "a.txt"}), CallTool("touch", {"path": "b.txt"})]
    scripts = ([bad_key()], [Say("now it works")], tools, [Say("both done")])
    async with visit.chatting(*scripts, setting=Setting(tools=(Counted(),))) as server:
        chat = await visit(server.url)
        await chat.say("hello")
        verdict = chat.talk.get_by_role("group", name="Run outcome")
        await expect(verdict.locator("strong")).to_contain_text("401")
        await expect(chat.page.get_by_text("attempt 1")).to_have_count(0)
        await verdict.get_by_role("button", name="Details", exact=True).click()
        await expect(verdict.get_by_role("group", name="Details")).to_contain_text("attempt 1")
        await chat.button("Retry").click()
        await chat.answered("now it works")
        await expect(chat.people).to_have_count(1)
        await expect(verdict).to_have_count(0)
        await chat.is_over()
        await chat.say("do both")
        await chat.answered("both done")
        activity = chat.talk.get_by_role("group", name="Activity")
        await expect(activity).to_contain_text("Activity: 2 tools")
        await expect(activity.get_by_text("a.txt")).to_have_count(0)
        await activity.get_by_role("button").click()
        row = activity.get_by_role("button", name="b.txt")
        await expect(row).to_contain_text("Done")
        await row.click()
        await expect(activity.get_by_role("group", name="Arguments")).to_contain_text('"path": "b.txt"')
        await expect(activity.get_by_role("group", name="Result")).to_have_text("touch done")


async def test_a_rule_is_shown_before_it_is_stored_and_a_denial_gives_its_reason(visit: Visit) -> None:
    """P8."""
    tool, other = Counted(), Counted("poke")
    setting = Setting(tools=(tool, other), judge=AsksAbout(frozenset({"touch", "poke"})))
    scripts = (
        [CallTool("touch", {"path": "a"})],
        [CallTool("touch", {"path": "b"}), CallTool("poke", {"path": "c"})],
        [Say("understood")],
    )
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("do it")
        card = chat.page.get_by_role("region", name="Approval needed")
        await card.get_by_role("button", name="In this chat…").click()
        await expect(card).to_contain_text("Allow without asking in this chat")
        assert tool.done == []
        back, allow = [
            await card.get_by_role("button", name=name).bounding_box()
            for name in ("Back", "Allow in this chat")
        ]
        assert back
        assert allow
        assert (back["y"], back["x"] < allow["x"]) == (allow["y"], True), "beside it, as at the other steps"
        await card.get_by_role("button", name="Allow in this chat").click()
        await expect(card).to_contain_text("poke")  # the second touch is not asked about
        await card.get_by_role("button", name="Deny…").click()
        await expect(card.get_by_role("textbox")).to_be_focused()
        await card.get_by_role("textbox").fill("too risky")
        await card.get_by_role("textbox").press("Enter")
        await chat.answered("understood")
        assert (len(tool.done), other.done) == (2, [])
        assert "too risky" in said_to(server.chaos, nth=3)[-1]


async def test_a_number_answers_a_question_only_from_its_card(visit: Visit) -> None:
    question = CallTool("ask_user", {"text": "Which?", "choices": ["red", "blue"]})
    async with visit.chatting([question], [Say("noted")]) as server:
        chat = await visit(server.url)
        await chat.say("ask me")
        card = chat.page.get_by_role("region", name="Question")
        await expect(card.get_by_role("button", name="2 blue")).to_be_enabled()
        await chat.box.press("2")
        await expect(chat.box).to_have_value("2")
        await expect(card).to_be_visible()
        await card.get_by_role("button", name="1 red").focus()
        for keys in ("Control+1", "Alt+1", "Meta+1"):  # the browser's own
            await chat.page.keyboard.press(keys)
        await chat.page.keyboard.press("2")
        await chat.answered("noted")
        await expect(chat.box).to_be_focused()
        await expect(chat.talk.get_by_role("article", name="Question")).to_contain_text("blue")
        await expect(chat.box).to_have_value("2")


async def test_code_is_copied_to_the_letter(visit: Visit) -> None:
    async with visit.chatting([Say("```python\ndef f():\n\treturn '<b>'\n```")]) as server:
        context = await visit.context(permissions=["clipboard-read", "clipboard-write"])
        chat = await visit(server.url, context)
        await chat.say("code")
        await expect(chat.answers.last).to_contain_text("Python")
        async with moment(chat.page):
            await chat.button("Copy code").click()
            await expect(chat.button("Copied")).to_be_visible()
        assert await chat.page.evaluate("navigator.clipboard.readText()") == "def f():\n\treturn '<b>'"


async def test_an_upload_that_failed_is_kept_and_tried_again(visit: Visit) -> None:
    async with visit.chatting([Say("read")]) as server:
        chat = await visit(server.url)
        turned_away = {"error": {"message": "The disk is full.", "code": "store_unavailable"}}

        async def turn_away(route: Route) -> None:
            await route.fulfill(status=503, json=turned_away)

        await chat.page.route("**/api/blobs", turn_away)
        note = {"name": "note.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}
        await chat.page.get_by_label("Files to attach").set_input_files([note])  # pyright: ignore[reportArgumentType]
        attachments = chat.page.get_by_role("list", name="Attachments")
        await expect(attachments).to_contain_text("The disk is full.")
        await expect(chat.page.get_by_text("Not saving")).to_be_visible()
        await chat.box.fill("look")
        await expect(chat.page.get_by_role("button", name="Upload all files")).to_be_disabled()
        await chat.box.press("Enter")
        await chat.sees("note.txt isn't uploaded. Upload it again or remove it.")
        await chat.page.unroute("**/api/blobs")
        await attachments.get_by_role("button", name="Upload note.txt again").click()
        await expect(attachments).to_contain_text("17 B")
        await expect(chat.page.get_by_text("Not saving")).to_have_count(0)
        await expect(chat.page.get_by_text("isn't uploaded")).to_have_count(0)
        nothing = {"name": "nothing.txt", "mimeType": "text/plain", "buffer": b""}
        await chat.page.get_by_label("Files to attach").set_input_files([nothing])  # pyright: ignore[reportArgumentType]
        await expect(attachments).to_contain_text("This file is empty.")
        await attachments.get_by_role("button", name="Remove nothing.txt").click()
        await chat.box.press("Enter")
        await chat.answered("read")
        await expect(chat.people.last).to_contain_text("note.txt")
        await expect(attachments).to_have_count(0)


async def test_an_upload_says_truly_why_it_failed(visit: Visit, tmp_path: Path) -> None:
    async with visit.chatting() as server:
        context = await visit.context()
        await context.clock.install()
        chat = await visit(server.url, context)
        path = tmp_path / "note.txt"
        await asyncio.to_thread(path.write_text, "remember the milk")
        attachments = chat.page.get_by_role("list", name="Attachments")
        again = attachments.get_by_role("button", name="Upload note.txt again")
        await chat.page.route("**/api/blobs", lambda route: route.fulfill(body="<html>Welcome</html>"))
        await chat.page.get_by_label("Files to attach").set_input_files(path)
        await expect(attachments).to_contain_text("The server returned an invalid response.")
        await chat.page.unroute("**/api/blobs")

        silence = asyncio.Event()
        await chat.page.route("**/api/blobs", lambda _: silence.set())
        await again.click()
        await silence.wait()
        await context.clock.fast_forward("04:00")
        await expect(attachments).to_contain_text("Can't reach the server.")
        await chat.page.unroute("**/api/blobs")

        await asyncio.to_thread(path.unlink)
        await again.click()
        await expect(attachments).to_contain_text("Can't read this file.")


async def test_a_screen_reader_is_told_an_answer_sentence_by_sentence_while_it_comes(visit: Visit) -> None:
    """Each sentence is said once, when it is complete, and by itself."""
    gate, end = Gate(), Gate()
    script = [
        Say("# Title\n\nOne line\nand more. Then *th"),
        Wait(gate),
        Say("is*.\n\n- first\n- sec"),
        Wait(end),
        Say("ond"),
    ]
    async with visit.chatting(script, [Say("Again."), Hang()]) as server:
        chat = await visit(server.url)
        await chat.page.evaluate(
            """() => {
              window.heard = [];
              new MutationObserver(all => {
                for (const {target, addedNodes} of all)
                  if (target.role === 'log') for (const one of addedNodes) window.heard.push(one.textContent);
              }).observe(document.body, {subtree: true, childList: true});
            }"""
        )
        await chat.say("speak")
        spoken = chat.page.get_by_role("log", name="Announcements").locator("p")
        await expect(spoken).to_have_text(["Title", "One line and more."])
        gate.open()
        await expect(spoken).to_have_text(["Title", "One line and more.", "Then this.", "first"])
        end.open()
        whole = ["Title", "One line and more.", "Then this.", "first", "second"]
        await expect(spoken).to_have_text(whole)
        await chat.say("and stop")
        await chat.answered("Again.")
        await chat.button("Stop").click()
        await expect(spoken).to_have_text([*whole, "Again.", "Stopped."])
        assert await chat.page.evaluate("window.heard") == [*whole, "Again.", "Stopped."]
