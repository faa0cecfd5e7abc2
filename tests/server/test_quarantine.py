"""Over HTTP: what is in quarantine is listed, put back and deleted, by a key that may approve."""

import asyncio
import os
from pathlib import Path

from holdfast.chaos import ChaosServer
from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine
from holdfast.server.options import ServerOptions
from serving import Setting, served, target_of

HIDDEN = os.fsdecode(b"odd\xff.code-workspace")


def fill(root: Path) -> None:
    """A command changed one protected file and made two."""
    workspace = root / "work"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "AGENTS.md").write_text("mine")
    protected = ProtectedPaths(Quarantine(root / "data" / "quarantine"))
    watch = protected.begin(workspace)
    for name in ("AGENTS.md", "sub/.envrc", HIDDEN):
        (workspace / name).write_text("theirs")
    assert len(protected.end(watch).changes) == 3


async def test_what_was_taken_is_listed_put_back_and_deleted(tmp_path: Path) -> None:
    """P13: nothing is lost on the way, and a path that leads elsewhere now is refused."""
    await asyncio.to_thread(fill, tmp_path)
    work, setting = tmp_path / "work", Setting(options=ServerOptions(data_dir=tmp_path / "data"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        status, found = await server.get("/api/quarantine")
        assert status == 200
        ids = {one["path"].removeprefix(f"{work}/"): one["id"] for one in found["data"]}
        assert set(ids) == {"AGENTS.md", "sub/.envrc", "odd\\xff.code-workspace"}

        status, restored = await server.post(f"/api/quarantine/{ids['AGENTS.md']}/restore", {})
        assert (status, restored["path"]) == (200, str(work / "AGENTS.md"))
        assert await asyncio.to_thread((work / "AGENTS.md").read_text) == "theirs"
        odd = ids["odd\\xff.code-workspace"]
        both = await asyncio.gather(*(server.post(f"/api/quarantine/{odd}/restore", {}) for _ in range(2)))
        assert sorted(status for status, _ in both) == [200, 404]
        assert await asyncio.to_thread((work / HIDDEN).read_text) == "theirs"

        await asyncio.to_thread((work / "sub").rename, work / "moved")
        await asyncio.to_thread((work / "sub").symlink_to, tmp_path)
        answer = await server.call("POST", f"/api/quarantine/{ids['sub/.envrc']}/restore", body={})
        assert (answer.status, answer.code) == (404, "not_in_quarantine")
        assert not await asyncio.to_thread((tmp_path / ".envrc").exists)

        for wrong in ("x", "..", "%2e%2e%2fdata"):
            answer = await server.call("DELETE", f"/api/quarantine/{wrong}")
            assert answer.status == 404, wrong
        assert (await server.call("DELETE", f"/api/quarantine/{ids['sub/.envrc']}")).status == 200
        _, found = await server.get("/api/quarantine")
        assert [Path(one["path"]).name for one in found["data"]] == ["AGENTS.md"]
        assert await asyncio.to_thread(Path(found["data"][0]["kept"]).read_text) == "mine"
