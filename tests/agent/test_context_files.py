"""Context files of subfolders, and files that a message names."""

from pathlib import Path

from agent.world import messages, process, send, tool_ends
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import Workspace


async def test_a_subfolders_context_file_comes_with_the_first_file_touched_there(tmp_path: Path) -> None:
    deep = tmp_path / "shop" / "cart"
    deep.mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("root rules")
    (tmp_path / "shop" / "AGENTS.md").write_text("shop rules")
    (deep / "CLAUDE.md").write_text("cart rules")
    (deep / "a.py").write_text("a")
    (deep / "b.py").write_text("b")
    reads = (
        [CallTool("read_file", {"path": "shop/cart/a.py"})],
        [CallTool("read_file", {"path": "shop/cart/b.py"})],
    )
    tool = ReadFile(FilesSeen(), workspaces=Workspace)
    async with (
        ChaosServer(*reads, [Say("done")]) as chaos,
        process(chaos, tool, workspace=tmp_path) as world,
    ):
        await send(world, "look at @shop/cart/a.py and @nothing.py")
        first, second = tool_ends(await world.until("s", e.RunEnded))
        assert first.result.index("shop rules") < first.result.index("cart rules")
        assert "rules" not in second.result
        system, said = (str(message["content"]) for message in messages(chaos.seen.request(1)))
        assert "root rules" in system
        assert "names these files of the workspace with an @: shop/cart/a.py. Read them." in said
        assert said.endswith("look at @shop/cart/a.py and @nothing.py")
