"""What the model sees, on the page: the chip and its panel, pins, and a summary that is reverted."""

import re

import pytest
from playwright.async_api import expect

from holdfast.chaos import Say
from page.browsing import Visit, faults_of
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")

SETTING = Setting(context_window=3_000, windows={"second": 90_000})


async def test_messages_are_pinned_and_a_summary_is_reverted_on_the_page(visit: Visit) -> None:
    """P7, P9: the panel shows the server's numbers, and a refusal says what to do."""
    scripts = [[Say("one")], [Say("## Task\ncount the stories")], [Say("two")]]
    async with visit.chatting(*scripts, setting=SETTING, models=("m", "large")) as server:
        chat = await visit(server.url)
        page = chat.page
        await chat.say("an old story " * 800)
        await chat.answered("one")
        await chat.is_over()
        await chat.people.last.hover()
        await chat.button("Pin message").click()
        await chat.sees(re.compile("At most a quarter of the window of 3,000 can be pinned: 750"))
        await chat.button("Pin answer").click()
        await expect(chat.button("Unpin answer")).to_be_visible()

        await chat.say("/compact")
        chip = page.get_by_role("button", name=re.compile("context tokens used"))
        await expect(chip).to_contain_text("3 %")
        await chip.click()
        panel = page.get_by_role("dialog", name="What the model sees")
        await expect(panel.get_by_role("meter", name="Context used")).to_be_visible()
        summaries = panel.get_by_role("region", name="Summarized or removed")
        await summaries.get_by_text("Show summary").click()
        await expect(summaries).to_contain_text("count the stories")
        await summaries.get_by_role("button", name="Revert").click()
        await expect(summaries).to_contain_text("Choose the target second as the model")
        assert await faults_of(page) == []
        pins = panel.get_by_role("region", name="Pinned")
        await expect(pins).to_contain_text("Assistant: one")
        await pins.get_by_role("button", name="Unpin").click()
        await expect(pins).not_to_contain_text("Assistant: one")
        await page.keyboard.press("Escape")
        await expect(chat.button("Pin answer")).to_be_visible()

        await page.get_by_role("combobox", name="Model", exact=True).select_option("large")
        await chat.button("Revert").click()
        await expect(chat.button("Revert")).to_have_count(0)
        await chat.sees("Reverted")
        await page.reload()
        await chat.sees("Reverted")
        await expect(chip).to_have_accessible_name(re.compile("of 90"))
