"""The panels about the server: targets, usage and the quarantine."""

import asyncio
import csv
import os
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import Gate, Say, Wait, rate_limited_s
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.server.options import ServerOptions
from page.browsing import Visit, faults_of, requests_of
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_target_that_asked_to_wait_is_tried_from_the_page_once_however_often_one_clicks(
    visit: Visit,
) -> None:
    """P10: two clicks are one call."""
    gate = Gate()
    scripts = ([rate_limited_s(3600)], [Wait(gate), Say("ok")], [rate_limited_s(3600)])
    async with visit.chatting(*scripts) as server:
        await server.served.post("/api/targets/main/try")
        chat = await visit(server.url)
        page = chat.page
        await chat.button("Settings").click()
        settings = page.get_by_role("dialog", name="Settings")
        await expect(settings.get_by_text(re.compile(r"Paused for (5\d:|1 h)"))).to_be_visible()
        await settings.get_by_role("button", name="Targets").click()
        panel = page.get_by_role("dialog", name="Targets")
        target = panel.get_by_role("listitem").filter(has_text="main")
        await expect(target.get_by_text("The provider requested a pause.")).to_be_visible()
        await expect(target).to_contain_text(re.compile(r"Rate limited, (just now|\d+ min ago)"))
        await expect(target.get_by_text(re.compile("wait until the limit resets"))).to_be_visible()
        button = target.get_by_role("button", name=re.compile("^Try(ing| now) main$"))
        await button.dblclick()
        await gate.reached()
        await button.press("Enter")
        gate.open()
        await expect(target.get_by_text(re.compile("Answered in .*, first token after"))).to_be_visible()
        await expect(target.get_by_text("Ready", exact=True)).to_be_visible()
        assert await faults_of(page) == []
        assert server.chaos.seen.requests_seen == 2
        await server.served.post("/api/targets/main/try")  # by someone else: the page sees it by itself
        await expect(target.get_by_text("The provider requested a pause.")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await expect(chat.button("Settings")).to_be_focused()


async def test_usage_is_shown_by_day_and_chat_and_saved_as_a_file_on_a_phone_too(
    visit: Visit, tmp_path: Path
) -> None:
    async with visit.chatting([Say("hello")]) as server:
        await server.served.ended(await server.served.start("count me", session_id="s"))
        small = {"width": 390, "height": 844}
        chat = await visit(server.url, viewport=small, color_scheme="dark", accept_downloads=True)
        page = chat.page
        asked = requests_of(page)
        await chat.button("Show chats").click()
        await chat.button("Settings").click()
        await page.get_by_role("dialog", name="Settings").get_by_role("button", name="Usage").click()
        panel = page.get_by_role("dialog", name="Usage")
        await expect(panel.get_by_text("Cost unknown")).to_be_visible()
        await expect(
            panel.get_by_text(re.compile("1 call went to models whose price isn.t known"))
        ).to_be_visible()
        await expect(panel.get_by_text(re.compile("No API key has a budget"))).to_be_visible()
        await expect(panel.get_by_role("img", name=re.compile("^7 days; peak"))).to_be_visible()
        table = panel.get_by_role("region", name="Usage table")
        await expect(table.get_by_role("row")).to_have_count(2)
        await panel.get_by_text("Chat", exact=True).click()
        await expect(table.get_by_role("button", name="count me")).to_be_visible()
        await expect(table.get_by_role("cell", name="unknown")).to_be_visible()
        assert await faults_of(page) == []
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= small["width"]
        async with page.expect_download() as saving:
            await panel.get_by_role("button", name="Download CSV").click()
        saved = await saving.value
        await saved.save_as(tmp_path / "usage.csv")
        text = (tmp_path / "usage.csv").read_text()
        (line,) = csv.DictReader(text.splitlines())
        assert (line["session"], line["label"], line["runs"], line["cost_usd"]) == ("s", "count me", "1", "")
        await panel.get_by_text("Custom", exact=True).click()
        await panel.get_by_label("First day").fill("2020-01-02")
        await panel.get_by_label("Last day").fill("2020-01-01")
        await expect(panel.get_by_role("alert")).to_have_text("The first day is after the last day.")
        await panel.get_by_label("Last day").fill("2020-01-03")
        await expect(panel.get_by_text("No usage in this period.")).to_be_visible()
        assert not [url for url in asked if "from=2020-01-02&to=2020-01-01" in url]


def _taken_away(root: Path) -> None:
    (root / "work").mkdir()
    (root / "work" / "AGENTS.md").write_text("mine")
    protected = ProtectedPaths(Quarantine(root / "data" / "quarantine"))
    watch = protected.begin(root / "work")
    (root / "work" / "AGENTS.md").write_text("theirs")
    (root / "work" / ".envrc").write_text("theirs")
    (root / "work" / "a\u202e<b>.code-workspace").write_text("theirs")
    protected.end(watch)


async def test_what_is_in_quarantine_is_put_back_or_deleted_in_the_settings(
    visit: Visit, tmp_path: Path
) -> None:
    """P13: with a name that would like to read otherwise than it is."""
    await asyncio.to_thread(_taken_away, tmp_path)
    setting = Setting(options=ServerOptions(data_dir=tmp_path / "data"))
    async with visit.chatting(setting=setting) as server:
        chat = await visit(server.url)
        await chat.button("Settings").click()
        lines = chat.page.get_by_role("list", name="Quarantine").get_by_role("listitem")
        await expect(lines).to_have_count(3)
        await expect(lines.filter(has_text="a⟨U+202E⟩<b>.code-workspace")).to_have_count(1)
        assert await faults_of(chat.page) == []
        status = chat.page.locator(".quarantine").get_by_role("status")
        await lines.filter(has_text="AGENTS.md").get_by_role("button", name="Restore").click()
        await expect(status).to_contain_text("Restored.")
        assert await asyncio.to_thread((tmp_path / "work" / "AGENTS.md").read_text) == "theirs"
        await expect(lines).to_have_count(3)
        await lines.filter(has_text=".envrc").get_by_role("button", name="Delete").click()
        await lines.filter(has_text=".envrc").get_by_role("button", name="Confirm delete").click()
        await expect(status).to_have_text("Deleted.")
        await expect(lines).to_have_count(2)
        left = await asyncio.to_thread(os.listdir, tmp_path / "work")
        assert left == ["AGENTS.md"]
