"""Commands that users write, in the composer."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from features.memory.world import opened
from holdfast.chaos import Say
from holdfast.features.memory.run import Remember
from page.browsing import Visit
from server.toolbox import CountedShell
from serving import Setting, said_to
from stores import MemoryStore

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


async def test_a_shell_command_and_a_memory_begin_with_a_mark(visit: Visit) -> None:
    """P8: the command's output is shown at once; the memory is proposed, and Markdown is a message."""
    store = MemoryStore()
    setting = Setting(store=store, tools=(CountedShell(), Remember()), features=opened(store, "ask"))
    async with visit.chatting([Say("I see")], setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("!make test")
        result = chat.page.get_by_role("figure").filter(has_text="Result")
        await expect(result).to_contain_text("shell done")
        await expect(chat.button("Regenerate")).to_have_count(0)
        await chat.box.fill("##likes tea")
        await expect(chat.page.get_by_role("form", name="Message")).to_contain_text("Proposes a memory")
        await chat.page.keyboard.press("Enter")
        proposed = chat.page.get_by_role("region", name="Proposed memories")
        await expect(proposed).to_contain_text("About you")
        await expect(proposed).to_contain_text("likes tea")
        await proposed.get_by_role("button", name="Remember").click()
        await expect(proposed).to_have_count(0)
        await chat.say("# Title\ntext")
        await chat.answered("I see")
        (said,) = said_to(server.chaos, nth=1)
        assert said.startswith("!make test\n\n[The user ran this command.")
        assert said.endswith("# Title\ntext")
