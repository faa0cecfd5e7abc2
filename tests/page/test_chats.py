"""A chat besides its talk: archive, fork, export, files, what the list says and what a browser keeps."""

import asyncio
import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import Gate, Say, Wait
from holdfast.host.demo_model import SCRIPTS, demo_server, demo_target
from holdfast.server.options import ServerOptions
from holdfast.server.page import BUILT, read_page
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from page.browsing import Visit, faults_of
from page.long_log import put_long_session
from serving import Setting, said_to, served
from stores import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

# 10 by 10 pixels
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGM4EaCBBzGMSmNDAPMbfQHnqyFdAAAAAElFTkSuQmCC"
)


async def test_a_chat_is_archived_forked_and_exported(visit: Visit, tmp_path: Path) -> None:
    """A fork keeps the title, and says what it is."""
    async with visit.chatting([Say("one")], [Say("two")], [Say("three")]) as server:
        chat = await visit(server.url)
        await chat.say("first")
        await chat.answered("one")
        await chat.say("second")
        await chat.answered("two")
        await chat.people.first.hover()
        await chat.talk.get_by_role("button", name="Fork from here").nth(1).click()
        await expect(chat.rows).to_have_count(2)
        await chat.answered("one")
        await expect(chat.page.get_by_role("heading", name="first", exact=True)).to_be_visible()
        await expect(chat.rows.filter(has_text="first")).to_have_count(2)
        await chat.say("another second")
        await chat.answered("three")
        assert said_to(server.chaos, nth=3) == ["first", "one", "another second"]
        await chat.is_over()
        forked = chat.page.url
        await chat.page.reload()
        await chat.page.get_by_text("This chat is a fork.").get_by_role("link").click()
        await expect(chat.page.get_by_text("This chat is a fork.")).to_have_count(0)
        assert chat.page.url != forked
        await chat.page.go_back()
        await chat.answered("three")

        menu = chat.page.get_by_role("menuitem")
        for name, suffix in (("Export as JSON", "json"), ("Export as Markdown", "md")):
            await chat.page.get_by_role("button", name="first").first.click()
            async with chat.page.expect_download() as coming:
                await menu.filter(has_text=name).click()
            path = tmp_path / f"export.{suffix}"
            download = await coming.value
            assert download.suggested_filename == f"first.{suffix}"
            await download.save_as(path)
            assert "another second" in path.read_text()
        assert json.loads((tmp_path / "export.json").read_text())

        await chat.page.get_by_role("button", name="first").first.click()
        await menu.filter(has_text="Archive").click()
        await chat.page.locator(".toast").hover()  # it stays as long as someone points at it
        await expect(chat.rows).to_have_count(1)
        await expect(chat.page.get_by_role("main").get_by_text("Archived")).to_be_visible()
        await chat.page.get_by_role("button", name="Archive", exact=True).press("Enter")
        await expect(chat.page.get_by_role("region", name="Archived")).to_contain_text("first")
        await chat.button("Undo").click()
        await chat.button("All chats").click()
        await expect(chat.rows).to_have_count(2)


async def test_the_demo_model_is_offered_only_what_it_can_do(visit: Visit) -> None:
    page = await asyncio.to_thread(read_page, BUILT)
    setting = Setting(options=ServerOptions(page=page, model="demo"))
    async with demo_server() as demo, served(demo_target(demo.base_url), setting=setting) as server:
        chat = await visit(server.url)
        await chat.sees("You're using the demo model.")
        offered = chat.page.get_by_role("region", name="What should we work on?").get_by_role("button")
        await expect(offered).to_have_count(3)
        for nth in range(3):
            await offered.nth(nth).click()
            await expect(chat.box).to_be_focused()
            assert await chat.box.input_value() in SCRIPTS
        await visit.leave(server.url)


async def test_the_list_says_what_goes_on_in_other_chats(visit: Visit) -> None:
    gate = Gate()
    async with visit.chatting([Say("long "), Wait(gate), Say("done")], [Say("short")]) as server:
        chat = await visit(server.url)
        await chat.say("takes long")
        await chat.answered("long")
        await chat.button("New chat").click()
        await chat.say("is quick")
        await chat.answered("short")
        row = chat.rows.filter(has_text="takes long")
        await expect(row).to_contain_text("running")
        gate.open()
        await expect(row).to_contain_text("unread")
        await row.get_by_role("link").click()
        await chat.answered("long done")
        await expect(row).not_to_contain_text("unread")
        await chat.rows.filter(has_text="is quick").get_by_role("link").click()
        await chat.answered("short")
        await expect(row).not_to_contain_text("unread")


async def test_files_are_chosen_pasted_and_dropped_up_to_20_of_them(visit: Visit) -> None:
    async with visit.chatting([Say("seen")]) as server:
        chat = await visit(server.url)
        attachments = chat.page.get_by_role("list", name="Attachments").get_by_role("listitem")
        notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"seven apples"}
        await chat.page.get_by_label("Files to attach").set_input_files([notes])  # pyright: ignore[reportArgumentType]
        await expect(attachments).to_contain_text(["12 B"])
        await chat.page.evaluate(
            """() => {
              const carrying = name => {
                const data = new DataTransfer();
                data.items.add(new File([`words of ${name}`], name, {type: 'text/plain'}));
                return data;
              };
              const how = {bubbles: true, cancelable: true};
              document.getElementById('composer').dispatchEvent(
                new ClipboardEvent('paste', {clipboardData: carrying('pasted.txt'), ...how}));
              const drop = {dataTransfer: carrying('dropped.txt'), ...how};
              for (const kind of ['dragenter', 'dragover', 'drop'])
                document.querySelector('main').lastElementChild.dispatchEvent(new DragEvent(kind, drop));
            }"""
        )
        await expect(attachments).to_contain_text(["12 B", "19 B", "20 B"])  # once they are uploaded
        await chat.say("read them")
        await chat.answered("seen")
        await expect(chat.people.last).to_contain_text("notes.txt")
        told = str(server.chaos.seen.requests[0].body)
        assert "seven apples" in told
        assert "words of pasted.txt" in told
        assert "words of dropped.txt" in told
        await chat.page.evaluate(
            """() => {
              const data = new DataTransfer();
              for (let n = 0; n < 21; n += 1) data.items.add(new File(['x'], `${n}.txt`));
              const drop = {dataTransfer: data, bubbles: true, cancelable: true};
              document.querySelector('main').lastElementChild.dispatchEvent(new DragEvent('drop', drop));
            }"""
        )
        await chat.sees("You can attach up to 20 files. The rest weren't added.")
        await expect(attachments).to_have_count(20)


async def test_a_file_that_no_model_reads_and_a_long_paste_are_files_for_the_agent(
    visit: Visit, tmp_path: Path
) -> None:
    """The person is told where they are."""
    setting = Setting(tools=(ReadFile(FilesSeen()),), workspace=tmp_path)
    async with visit.chatting([Say("seen")], setting=setting) as server:
        chat = await visit(server.url)
        archive = {"name": "data.zip", "mimeType": "application/zip", "buffer": b"PK\0\xff"}
        await chat.page.get_by_label("Files to attach").set_input_files([archive])  # pyright: ignore[reportArgumentType]
        await chat.box.fill("read ")
        await chat.box.press("End")
        await chat.page.evaluate(
            """() => {
              const data = new DataTransfer();
              const text = `${'a long line '.repeat(133)}\\n`.repeat(30);
              data.setData('text/plain', text.replaceAll('\\n', '\\r\\n'));
              const box = document.getElementById('composer');
              box.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true}));
              document.execCommand('insertText', false, text);
            }"""
        )
        await chat.sees("You pasted 48 kB of text.")
        await chat.button("Attach it as a file").click()
        await expect(chat.box).to_have_value("read ")
        await expect(chat.page.get_by_role("list", name="Attachments")).to_contain_text("pasted.txt")
        await expect(chat.button("Send")).to_be_enabled()
        await chat.button("Send").click()
        await chat.answered("seen")
        told = str(server.chaos.seen.requests[0].body)
        for name in ("data", "pasted"):
            (path,) = await asyncio.to_thread(lambda: [*tmp_path.glob(f"attachments/{name}-*")])  # noqa: B023
            assert f"attachments/{path.name}" in told
            await expect(chat.talk).to_contain_text(f"in the workspace: attachments/{path.name}")


async def test_the_composer_names_the_models_and_sends_the_chosen_one_with_its_options(visit: Visit) -> None:
    """Two targets of one model are told apart; the choice is kept in the browser."""
    models = ("gpt-6", "claude-opus", "gpt-6")
    async with visit.chatting([Say("one")], [Say("two")], models=models) as server:
        chat = await visit(server.url)
        model = chat.page.get_by_role("combobox", name="Model")
        await expect(model.get_by_role("option")).to_have_text(
            ["gpt-6 · main", "claude-opus", "gpt-6 · third"]
        )
        await chat.say("first")
        await chat.answered("one")
        await model.select_option("claude-opus")
        await chat.button("default effort").click()
        options = chat.page.get_by_role("dialog", name="Model options")
        await options.get_by_text("High", exact=True).click()
        await options.get_by_label("Temperature").fill("3")
        await options.get_by_label("Temperature").fill("0.3")
        await options.get_by_label("Maximum tokens").fill("900")
        await options.get_by_role("button", name="Close").click()
        await expect(chat.button("high effort · 0.3 · 900")).to_be_visible()
        await chat.page.reload()
        await chat.say("second")
        await chat.answered("two")
        asked = [request.body or {} for request in server.chaos.seen.requests]
        names = ("model", "reasoning_effort", "temperature", "max_tokens")
        assert [[one.get(name) for name in names] for one in asked] == [
            ["gpt-6", None, None, None],
            ["claude-opus", "high", 0.3, 900],
        ]


async def test_what_cannot_be_shown_or_attached_says_so_and_an_edit_keeps_the_files(
    visit: Visit, tmp_path: Path
) -> None:
    """A picture that breaks off, a file that never fits, a folder; and `/compact` is no message."""
    whole = b64decode(PICTURE)
    files = [
        {"name": "whole.png", "mimeType": "image/png", "buffer": whole},
        {"name": "cut.png", "mimeType": "image/png", "buffer": whole[:50] + b"x" * 20},
        {"name": "no.png", "mimeType": "image/png", "buffer": b"no picture"},
        {"name": "empty.txt", "mimeType": "text/plain", "buffer": b""},
    ]
    async with visit.chatting([Say("seen")], [Say("## Task\na summary")]) as server:
        chat = await visit(server.url)
        await chat.page.get_by_label("Files to attach").set_input_files(files)  # pyright: ignore[reportArgumentType]
        attachments = chat.page.get_by_role("list", name="Attachments")
        await expect(attachments.locator(".broken-picture")).to_have_count(2)
        await expect(attachments.locator("img")).to_have_count(1)
        await expect(attachments.get_by_role("button", name=re.compile("^Upload"))).to_have_count(0)
        await chat.say("look")
        await chat.sees("empty.txt isn't uploaded. Remove it.")
        await chat.button("Remove empty.txt").click()
        tool = await chat.page.context.new_cdp_session(chat.page)
        for kind in ("dragEnter", "dragOver", "drop"):
            data = {"items": [], "files": [str(tmp_path)], "dragOperationsMask": 1}
            await tool.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 300, "data": data})  # pyright: ignore[reportUnknownMemberType]
        await chat.sees("Folders can't be attached. Attach the files inside instead.")
        assert not await faults_of(chat.page)
        await expect(chat.button("Send")).to_be_enabled()
        await chat.box.press("Enter")
        await chat.answered("seen")
        await chat.is_over()
        await expect(chat.people.last).to_contain_text("cut.png (can't be shown)")
        await expect(chat.people.last).to_contain_text("no.png (can't be shown)")
        assert not await faults_of(chat.page)
        await chat.button("Edit and resend").click()
        editing = chat.page.get_by_role("article", name="Edit your message")
        await expect(editing).to_contain_text("cut.png")
        await chat.page.keyboard.press("Escape")
        await chat.say("/compact")
        await chat.sees("Earlier messages were summarized for the model")
        await expect(chat.people.last.get_by_role("button", name="Edit and resend")).to_have_count(0)
        assert "/compact" not in said_to(server.chaos, nth=2)


async def test_the_list_goes_on_where_a_page_of_it_failed(visit: Visit) -> None:
    store = MemoryStore()
    for n in range(55):
        await put_long_session(store, f"s{n}", exchanges=1)
    async with visit.chatting(setting=Setting(store=store)) as server:
        chat = await visit(server.url)
        await expect(chat.rows).to_have_count(50)
        more = "**/api/sessions?*cursor=*"
        await chat.page.route(more, lambda route: route.abort("connectionrefused"))
        async with chat.page.expect_event("requestfailed", lambda failed: "cursor=" in failed.url):
            await chat.rows.last.scroll_into_view_if_needed()
        await chat.page.unroute(more)
        await chat.page.evaluate("() => void dispatchEvent(new Event('online'))")
        await expect(chat.rows).to_have_count(55)
    await store.close()


async def test_nothing_of_a_chat_stays_in_the_browser(visit: Visit) -> None:
    """P11, P7: the server alone has answers, queues and cursors, and what was written and not sent."""
    gate = Gate()
    async with visit.chatting([Say("half a secret"), Wait(gate)]) as server:
        chat = await visit(server.url)
        await chat.say("say it")
        await chat.answered("half a secret")
        await chat.box.fill("an unsent thought")
        kept = "() => JSON.stringify([{...localStorage}, {...sessionStorage}])"
        await chat.page.wait_for_function(f"() => !({kept})().includes('an unsent thought')", timeout=30_000)
        await chat.state("saved · ")
        stored = await chat.page.evaluate(kept)
        assert "secret" not in stored
        assert "say it" not in stored
        other = await visit(chat.page.url)
        await expect(other.box).to_have_value("an unsent thought")
        gate.open()
