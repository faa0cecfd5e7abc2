"""The workspace's guide reaches the model, and nothing else does in its name."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from holdfast.agent.instructions import GUIDE_CHARS_MAX, guides_of, own_guide
from holdfast.agent.prompt import GUIDE
from holdfast.agent.system_context import system_text
from holdfast.tools.files.workspace import Workspace

SECRET = "not for models"  # noqa: S105 - nobody's


async def told(root: Path, *, kept_out: tuple[str, ...] = ()) -> str:
    async with asyncio.timeout(60):
        workspace = Workspace(root, kept_out=kept_out)
        guides = await asyncio.to_thread(guides_of, workspace)
        return system_text({"own instructions": "Be brief.", **guides, "caller": "And kind."})


async def test_the_guide_stands_behind_the_operators_words(tmp_path: Path) -> None:
    (tmp_path / GUIDE).write_text("Use tabs.\n")
    assert await told(tmp_path) == "Be brief.\n\nFrom AGENTS.md in the workspace:\n\nUse tabs.\n\n\nAnd kind."


async def test_without_a_guide_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert await told(tmp_path) == "Be brief.\n\nAnd kind."
    (tmp_path / GUIDE).write_text(" \n")
    assert await told(tmp_path) == "Be brief.\n\nAnd kind."


async def test_a_guide_may_be_a_link_to_another_file_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("Use tabs.")
    (tmp_path / GUIDE).symlink_to("docs/guide.md")
    assert "Use tabs." in await told(tmp_path)


@pytest.mark.parametrize(
    "target",
    ["../outside", "/proc/self/environ", "/etc/passwd", "/dev/zero", "up/outside", ".env", "config/api-key"],
)
async def test_a_guide_that_leads_elsewhere_is_not_followed(target: str, tmp_path: Path) -> None:
    """P11: no tool call and no person was asked for it."""
    root = tmp_path / "work"
    (root / "config").mkdir(parents=True)
    for secret in (tmp_path / "outside", root / ".env", root / "config" / "api-key"):
        secret.write_text(SECRET)
    (root / "up").symlink_to(tmp_path)
    (root / GUIDE).symlink_to(target)
    found = await told(root, kept_out=(str(root / "config"),))
    assert found.startswith("Be brief.\n\n(AGENTS.md in the workspace is not shown: ")
    assert SECRET not in found
    assert "PATH=" not in found
    assert "root:" not in found


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "link to a fifo", "loop"])
async def test_a_guide_that_is_no_file_keeps_nobody_waiting(kind: str, tmp_path: Path) -> None:
    """P3."""
    guide = tmp_path / GUIDE
    match kind:
        case "fifo":
            os.mkfifo(guide)
        case "folder":
            guide.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as one, pytest.MonkeyPatch.context() as patch:
                patch.chdir(tmp_path)  # the address of a socket is short
                one.bind(GUIDE)
        case "loop":
            guide.symlink_to(GUIDE)
        case _:
            os.mkfifo(tmp_path / "pipe")
            guide.symlink_to("pipe")
    assert "is not shown" in await told(tmp_path)


async def test_a_long_guide_is_cut_and_says_so(tmp_path: Path) -> None:
    with (tmp_path / GUIDE).open("wb") as file:
        file.write(b"Use tabs.\n")
        file.truncate(2**40)  # nobody has room for that much
    found = await told(tmp_path)
    assert "Use tabs." in found
    assert "(the rest of this file is not shown)" in found
    assert len(found) < GUIDE_CHARS_MAX + 1_000


async def test_a_workspace_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    assert await told(tmp_path / "gone") == "Be brief.\n\nAnd kind."


async def test_the_users_own_guide_is_a_regular_file_and_has_a_limit(tmp_path: Path) -> None:
    """P3."""

    def own() -> dict[str, str]:
        return own_guide(tmp_path / GUIDE)

    assert await asyncio.to_thread(own) == {}
    (tmp_path / GUIDE).write_text("Use tabs.")
    assert await asyncio.to_thread(own) == {"own AGENTS.md": "From the user's own AGENTS.md:\n\nUse tabs."}
    with (tmp_path / GUIDE).open("wb") as file:
        file.truncate(2**40)
    assert "is not shown: it has more than" in (await asyncio.to_thread(own))["own AGENTS.md"]
    (tmp_path / GUIDE).unlink()
    os.mkfifo(tmp_path / GUIDE)
    assert "is not shown: it is not a regular file" in (await asyncio.to_thread(own))["own AGENTS.md"]
