"""Skills on the page: a proposal with its difference is accepted, shown, and removed again."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import CallTool, Say
from holdfast.features.skills.folders import skill_file
from holdfast.features.skills.library import SkillLibrary
from holdfast.features.skills.run import ProposeSkill
from page.browsing import Visit, faults_of
from serving import Setting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_proposed_change_of_a_skill_is_compared_accepted_and_removed(
    visit: Visit, tmp_path: Path
) -> None:
    """P8."""
    folder = tmp_path / "release-notes"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_file("release-notes", "Write them.", "Old step."))
    change = {
        "name": "release-notes",
        "description": "Write them well.",
        "body": "New step.",
        "reason": "the old one failed",
    }
    setting = Setting(tools=(ProposeSkill(),), features={"skills": SkillLibrary(own=tmp_path)})
    async with visit.chatting(
        [CallTool("propose_skill", change)], [Say("proposed")], setting=setting
    ) as server:
        chat = await visit(server.url)
        await chat.say("improve it")
        await chat.answered("proposed")
        await chat.button("Settings").click()
        await chat.page.get_by_role("dialog").get_by_role("button", name="Skills").click()
        skills = chat.page.get_by_role("dialog", name="Skills")
        await expect(skills.locator("del")).to_contain_text(["Write them.", "Old step."])
        await expect(skills.locator("ins")).to_contain_text(["Write them well.", "New step."])
        assert await faults_of(chat.page) == []
        await skills.get_by_role("button", name="Accept").click()
        row = skills.get_by_role("list", name="Skills").get_by_role("listitem")
        await expect(row).to_contain_text("Yours, changed")
        await row.get_by_text("release-notes").click()
        await expect(row).to_contain_text("New step.")
        await row.get_by_role("button", name="Remove the change").click()
        await expect(row).not_to_contain_text(", changed")
        assert "Old step." in (folder / "SKILL.md").read_text()
