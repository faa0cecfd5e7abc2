"""Commands that users write, in the composer."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.chaos import Say
from page.browsing import Visit
from serving import Setting, said_to

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_command_of_ones_own_is_offered_and_sent(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hints list it, its message is sent, and an unknown command is held back as before."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "holdfast" / "commands"
    own.mkdir(parents=True)
    (own / "code-review.md").write_text("---\ndescription: Review a file\n---\nReview $1 with care.")
    setting = Setting(workspace=tmp_path)
    async with visit.chatting([Say("looks good")], [Say("sent anyway")], setting=setting) as server:
        chat = await visit(server.url)
        commands = chat.page.get_by_role("list", name="Commands").get_by_role("button")
        await chat.box.press_sequentially("/co")
        await expect(commands).to_have_text("/code-review Review a file")
        await chat.page.keyboard.press("Tab")
        await expect(chat.box).to_have_value("/code-review ")
        await chat.page.keyboard.type("a.py")
        await chat.page.keyboard.press("Enter")
        await chat.answered("looks good")
        await expect(chat.box).to_have_value("")
        assert said_to(server.chaos, nth=1)[-1] == "Review a.py with care."
        await chat.say("/code-revue a.py")
        said = chat.page.get_by_role("form", name="Message").get_by_role("alert")
        await expect(said).to_contain_text("Unknown command")
        await expect(chat.box).to_have_value("/code-revue a.py")
        await chat.page.keyboard.press("Enter")
        await chat.answered("sent anyway")
