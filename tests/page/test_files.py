"""The workspace beside the chat: a person walks its tree, opens files, mentions one and drops one in."""

import asyncio
import os
import zlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from holdfast.chaos import Say
from page.browsing import Chat, Visit, faults_of
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "<img src=x onerror=window.hit=1>.html"
REVERSED = "photo\u202egpj.md"
SCRIPT = "<script>window.hit=1</script><svg onload='window.hit=1'><img src=x onerror='window.hit=1'>"
DROP = """async (row, {name, text}) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    for (const type of ["dragover", "drop"]) {
        row.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
        await new Promise(requestAnimationFrame);
    }
}"""
DRAGGED = """(row) => {
    const data = new DataTransfer();
    row.dispatchEvent(new DragEvent("dragstart", {dataTransfer: data, bubbles: true}));
    return data.getData("text/plain");
}"""


def png() -> bytes:
    """A red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    header = (64).to_bytes(4) + (64).to_bytes(4) + bytes([8, 2, 0, 0, 0])
    rows = zlib.compress((b"\0" + b"\xd0\x30\x30" * 64) * 64)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pdf() -> bytes:
    """One empty page."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>",
    )
    body, places = b"%PDF-1.4\n", list[int]()
    for nth, one in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%bendobj\n" % (nth, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"xref\n0 4\n0000000000 65535 f \n%btrailer<</Size 4/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return body + trailer % (table, len(body))


def fill(root: Path) -> None:
    for folder in ("src/deep", "node_modules"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "main.py").write_text("def main() -> None:\n    print('hello')\n")
    (root / "src" / "deep" / "many").mkdir()
    for nth in range(620):
        (root / "src" / "deep" / "many" / f"{nth:04}.txt").touch()
    (root / HOSTILE).write_text(SCRIPT)
    (root / REVERSED).write_text(f"# Title\n\n{SCRIPT}\n\n[link](javascript:alert(1))\n")
    (root / "table.csv").write_text('name,"a, b"\nx,"1 ""2"""\n<b>,3\n')
    (root / "picture.png").write_bytes(png())
    (root / ".env").write_text("KEY=1")
    (root / "there.txt").write_text("old")
    Path(os.fsdecode(os.fsencode(root) + b"/odd-\xff")).touch()


def row(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("treeitem", name=name)


async def opened(panel: Locator, name: str) -> None:
    """Open a file of the tree's first level, from wherever the panel is."""
    back = panel.get_by_role("button", name="Back to files")
    if await back.count():
        await back.click()
    await row(panel, name).click()


async def test_a_workspace_is_walked_read_mentioned_and_dropped_into(visit: Visit, tmp_path: Path) -> None:
    """P11: with names and contents that would like to be markup, by mouse and by keyboard."""
    await asyncio.to_thread(fill, tmp_path)
    async with visit.chatting([Say("Hello.")], setting=Setting(workspace=tmp_path)) as server:
        await server.served.ended(await server.served.start(session_id="s"))
        chat = await visit(f"{server.url}/s/s")
        page = chat.page
        await chat.button("Files").click()
        panel = page.get_by_role("complementary", name="Files")
        await _walk(page, panel)
        await _read(chat, panel)
        await _drop(panel, tmp_path)
        assert await page.evaluate("window.hit === undefined")
        await panel.focus()
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await expect(chat.button("Files")).to_be_focused()


async def _walk(page: Page, panel: Locator) -> None:
    await expect(row(panel, "node_modules folder, ignored")).to_be_visible()
    await expect(row(panel, ".env")).to_have_attribute("aria-disabled", "true")
    await expect(row(panel, "odd-\\xff")).to_have_attribute("aria-disabled", "true")
    await expect(panel.get_by_text("photo⟨U+202E⟩gpj.md")).to_be_visible()
    assert await faults_of(page) == []
    await expect(panel.get_by_role("button", name="Upload files to the workspace")).to_be_visible()
    await row(panel, "node_modules").focus()
    await page.keyboard.press("End")
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await expect(row(panel, "src folder")).to_be_focused()
    for name in ("deep folder", "many folder", "0000.txt"):
        await page.keyboard.press("ArrowRight")
        await expect(row(panel, name)).to_be_visible()
        await page.keyboard.press("ArrowRight")
        await expect(row(panel, name)).to_be_focused()
    await expect(row(panel, "0499.txt")).to_have_count(1)
    await panel.get_by_text("Show more (120 left)").click()
    await expect(row(panel, "0619.txt")).to_have_count(1)
    await row(panel, "many folder").focus()
    await page.keyboard.press("ArrowLeft")
    await expect(row(panel, "0000.txt")).to_have_count(0)
    await page.keyboard.press("ArrowLeft")
    await expect(row(panel, "deep folder")).to_be_focused()


async def _read(chat: Chat, panel: Locator) -> None:
    await opened(panel, "main.py")
    await expect(panel.locator(".sh-keyword", has_text="def")).to_be_visible()
    await panel.get_by_role("button", name="Mention in the message").click()
    await expect(chat.box).to_have_value("@src/main.py ")
    await opened(panel, HOSTILE)
    await expect(panel.get_by_text("<script>window.hit=1</script>")).to_be_visible()
    await opened(panel, "photo")
    await expect(panel.get_by_role("heading", name="Title")).to_be_visible()
    assert await panel.locator("a[href^=javascript]").count() == 0
    await opened(panel, "table.csv")
    await expect(panel.get_by_role("columnheader", name="a, b")).to_be_visible()
    await expect(panel.get_by_role("cell", name='1 "2"')).to_be_visible()
    assert await faults_of(chat.page) == []
    await opened(panel, "picture.png")
    await expect(panel.get_by_role("img", name="picture.png")).to_have_js_property("naturalWidth", 64)
    await panel.get_by_role("button", name="Back to files").click()
    await expect(row(panel, "there.txt")).to_be_visible()


async def test_a_pdf_opens_in_the_browsers_own_viewer(whole_browser: Browser, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "paper.pdf").write_bytes, pdf())
    async with AsyncExitStack() as stack:
        visit = Visit(whole_browser, stack)
        async with visit.chatting([Say("Hello.")], setting=Setting(workspace=tmp_path)) as server:
            await server.served.ended(await server.served.start(session_id="s"))
            chat = await visit(f"{server.url}/s/s")
            await chat.button("Files").click()
            panel = chat.page.get_by_role("complementary", name="Files")
            await opened(panel, "paper.pdf")
            await expect(panel.locator("iframe")).to_have_attribute("title", "paper.pdf")
            await _viewer_started(chat.page)
    assert not visit.errors


async def _viewer_started(page: Page) -> None:
    """The browser's own PDF viewer has the file: within its page, the file is once more in a frame."""
    async with asyncio.timeout(30):
        while sum("paper.pdf" in frame.url for frame in page.frames) < 2:  # noqa: ASYNC110  # nothing says so
            await asyncio.sleep(0.01)


async def _drop(panel: Locator, root: Path) -> None:
    assert await row(panel, "there.txt").evaluate(DRAGGED) == "@there.txt "
    await row(panel, "src folder").evaluate(DROP, {"name": "new.txt", "text": "dropped"})
    await expect(row(panel, "new.txt")).to_be_visible()
    await row(panel, "picture.png").evaluate(DROP, {"name": "there.txt", "text": "new"})
    await expect(panel.get_by_text("there.txt already exists. Replace it?")).to_be_visible()
    assert await asyncio.to_thread((root / "there.txt").read_text) == "old"
    await panel.get_by_role("button", name="Replace").click()
    await expect(panel.get_by_role("list", name="Uploads")).to_have_count(0)
    assert await asyncio.to_thread((root / "there.txt").read_text) == "new"
    await row(panel, "picture.png").evaluate(DROP, {"name": ".env", "text": "X=1"})
    await expect(panel.get_by_text(".env may contain secrets")).to_be_visible()
    assert await asyncio.to_thread((root / "src" / "new.txt").read_text) == "dropped"
    assert await asyncio.to_thread((root / ".env").read_text) == "KEY=1"
