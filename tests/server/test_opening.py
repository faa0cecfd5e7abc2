"""A server answers before its tools are open and its sandbox is tested; runs begin afterwards."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from holdfast.chaos import ChaosServer, Say
from holdfast.cli.demo.server import clean_environment
from holdfast.host.http_server import application, serving
from holdfast.host.opening import Opening
from holdfast.host.runtime import open_runtime
from runner.program import configure, start_server
from server.toolbox import OpenedLater
from serving import Setting, parts_of, served, target_of
from stores import MemoryStore

# Python imports it first, and from then on the module that opens the tools can't be imported.
BROKEN = """
import sys

class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "holdfast.host.tool_groups":
            raise RuntimeError("a broken installation")

sys.meta_path.insert(0, Broken())
"""


async def test_a_run_is_accepted_at_once_and_begins_when_the_tools_are_open() -> None:
    tools = OpenedLater()
    async with (
        ChaosServer([Say("hello")]) as chaos,
        served(target_of(chaos), setting=Setting(opened=tools.opened)) as server,
    ):
        assert (await server.get("/health"))[0] == 200
        assert (await server.get("/health/ready"))[0] == 503
        run_id = await server.start()
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "queued"
        assert not chaos.seen.requests
        tools.open.set()
        assert (await server.ended(run_id))["status"] == "completed"
        assert (await server.get("/health/ready"))[0] == 200


async def test_a_server_ends_if_the_sandbox_that_it_requires_does_not_hold(tmp_path: Path) -> None:
    configure(tmp_path, "http://127.0.0.1:9/v1", sandbox="require")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sandbox").write_text("in the way of the sandbox's files")
    process = await start_server(tmp_path)
    _, said = await process.communicate()
    assert await process.wait() == 1
    assert said.startswith(b'holdfast: sandbox.mode is "require", but no sandbox passes the self-test')


async def test_a_bug_while_the_tools_are_opened_is_in_the_health() -> None:
    """P3: no run would ever begin, and a watchdog has to see that."""

    def broken() -> None:
        raise RuntimeError("a bug of ours")

    opening, store = Opening(broken), MemoryStore()
    parts = parts_of(store=store, opened=opening.succeeds)
    async with open_runtime(parts) as runtime, aclosing(opening):
        app = application(runtime, opening=opening)
        async with serving(app) as url, aiohttp.ClientSession(url) as http:
            with pytest.raises(OSError, match=r"because of a bug: RuntimeError\('a bug of ours'\)"):
                await app.until_opened()
            async with http.get("/health") as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (503, "tools_failed")
    await store.close()


@pytest.mark.parametrize("command", [("run", "hi"), ("serve",)], ids=" ".join)
async def test_a_command_whose_tools_cant_be_opened_fails_and_says_why(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """P3: with a sandbox that isn't required, too."""
    configure(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *command, "--config", "holdfast.toml"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean_environment(), "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b"holdfast: the tools can't be opened because of a bug: RuntimeError" in said
