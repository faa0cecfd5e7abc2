"""Over HTTP: what a run changed, and its undo and redo; who may do that is tested with all scopes."""

import asyncio
from pathlib import Path

from features.undo.world import Changes, model, write
from holdfast.chaos import ChaosServer
from holdfast.features.undo.snapshots import Snapshots
from serving import Setting, served, target_of


async def test_changes_are_shown_undone_and_redone(tmp_path: Path) -> None:  # noqa: PLR0915  # one scenario
    """P13."""
    workspace, tool = tmp_path / "ws", Changes([write("new.txt", "hello\n", "kept.bin", "\0")])
    snapshots = Snapshots(tmp_path / "snapshots")
    await asyncio.to_thread(workspace.mkdir)
    await asyncio.to_thread(write(".env", "KEY=1"), workspace)
    async with (
        ChaosServer(choose=model) as chaos,
        served(target_of(chaos), setting=Setting(tools=(tool,), features={"undo": snapshots})) as server,
    ):
        body = {"input": "go", "session_id": "s", "workspace": str(workspace)}
        _, started = await server.post("/v1/runs", body)
        run = f"/v1/runs/{started['run_id']}"
        async with server.http.get(f"{server.url}{run}/events") as stream:
            await stream.read()
        status, changes = await server.get(f"{run}/changes")
        assert status == 200
        files = {one["path"]: one for one in changes["files"]}
        assert files["new.txt"]["diff"].endswith("@@ -0,0 +1 @@\n+hello\n")
        assert (files["new.txt"]["kind"], files["new.txt"]["after_bytes"]) == ("created", 6)
        assert files["kept.bin"]["binary"]
        assert changes["not_covered"] == [{"path": ".env", "why": "secret"}]
        _, page = await server.get("/api/sessions/s/messages")
        assert page["runs"][0]["files_changed"] == 2
        both = await server.call("POST", f"{run}/undo", body={"force": True, "keep_both": True})
        assert both.status == 400
        other = await server.call("POST", f"{run}/undo", body={"files": ["none"]})
        assert (other.status, other.code) == (404, "file_not_changed")
        redo = await server.call("POST", f"{run}/redo")
        assert (redo.status, redo.code) == (409, "nothing_to_redo")
        await asyncio.to_thread(write("new.txt", "mine"), workspace)
        refused = await server.call("POST", f"{run}/undo")
        assert (refused.status, refused.code) == (409, "undo_conflict")
        assert "new.txt (changed since)" in refused.json["error"]["message"]
        preview = (await server.post(f"{run}/undo/preview", {}))[1]
        assert preview["turns"] == [{"run_id": started["run_id"], "number": 1, "text": "go"}]
        assert preview["files"] == [
            {"path": "kept.bin", "effect": "deleted"},
            {"path": "new.txt", "effect": "deleted", "conflict": "changed since"},
        ]
        stale = await server.call("POST", f"{run}/undo", body={"force": True, "plan": "another"})
        assert (stale.status, stale.code) == (409, "plan_changed")
        status, done = await server.post(f"{run}/undo", {"keep_both": True, "plan": preview["plan"]})
        assert (status, sorted(done["files"])) == (200, ["kept.bin", "new.txt", "new.txt.before-undo"])
        assert (await asyncio.to_thread(lambda: sorted(p.name for p in workspace.iterdir()))) == [
            ".env",
            "new.txt.before-undo",
        ]
        _, page = await server.get("/api/sessions/s/messages")
        assert page["data"] == []
        (listed,) = page["undos"]
        assert (listed["files"], listed["turns"], listed["returns_chat"]) == (3, 1, True)
        _, changes = await server.get(f"{run}/changes")
        assert changes["undone"]
        assert changes["undos"] == [{**listed, "paths": ["kept.bin", "new.txt", "new.txt.before-undo"]}]
        status, _ = await server.post(f"{run}/redo", {})
        assert status == 200
        assert await asyncio.to_thread((workspace / "new.txt").read_text) == "mine"
        assert await asyncio.to_thread(lambda: len(list(tmp_path.rglob("*.pack")))) > 0
        deleted = await server.call("DELETE", "/api/sessions/s?now=true")
        assert deleted.status == 200
        assert await asyncio.to_thread(lambda: list(tmp_path.rglob("*-before"))) == []
        assert await snapshots.collect(keep_after_ns=0)
        assert await asyncio.to_thread(lambda: list(tmp_path.rglob("*.pack"))) == []


async def test_without_snapshots_nothing_is_listed_and_undo_says_that_it_is_off(tmp_path: Path) -> None:
    tool = Changes([write("file", "text")])
    async with (
        ChaosServer(choose=model) as chaos,
        served(target_of(chaos), setting=Setting(tools=(tool,))) as server,
    ):
        _, started = await server.post("/v1/runs", {"input": "go", "workspace": str(tmp_path)})
        run = f"/v1/runs/{started['run_id']}"
        async with server.http.get(f"{server.url}{run}/events") as stream:
            await stream.read()
        status, changes = await server.get(f"{run}/changes")
        assert (status, changes["files"]) == (200, [])
        off = await server.call("POST", f"{run}/undo")
        assert (off.status, off.code) == (409, "undo_off")


async def test_what_a_run_does_to_git_is_said_with_the_way_back(tmp_path: Path) -> None:
    """P13: it is not covered, so it is listed."""
    workspace = tmp_path / "ws"
    commits = ["1" * 40, "2" * 40]

    def stand(root: Path, nth: int) -> None:
        (root / ".git").mkdir(exist_ok=True)
        (root / ".git" / "HEAD").write_text(commits[nth])

    def change(root: Path) -> None:
        stand(root, 1)
        (root / "file").write_text("text")

    await asyncio.to_thread(workspace.mkdir)
    await asyncio.to_thread(stand, workspace, 0)
    setting = Setting(tools=(Changes([change]),), features={"undo": Snapshots(tmp_path / "snapshots")})
    async with ChaosServer(choose=model) as chaos, served(target_of(chaos), setting=setting) as server:
        run_id = await server.start(session_id="s", workspace=str(workspace))
        await server.ended(run_id)
        way_back = f"git update-ref --no-deref HEAD {commits[0]} && git reset"
        _, changes = await server.get(f"/v1/runs/{run_id}/changes")
        assert (changes["git"]["commit_before"], changes["git"]["way_back"]) == (commits[0], way_back)
        _, done = await server.post(f"/v1/runs/{run_id}/undo", {})
        assert (done["files"], done["git"]["way_back"]) == (["file"], way_back)
        assert await asyncio.to_thread((workspace / ".git" / "HEAD").read_text) == commits[1]
        _, again = await server.post(f"/v1/runs/{run_id}/redo", {})
        assert "git" not in again
