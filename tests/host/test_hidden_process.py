"""The server beside programs of the same user: they read none of its secrets, and it goes on as before."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from holdfast.chaos import CallTool, ChaosServer, Say

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems show no process to others")

NOBODY = 65534
# Root reads everything, so the tests are somebody else where they can be.
AS_NOBODY = (
    ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if os.getuid() == 0 else ()
)
SECRET = "a-key-that-only-the-server-knows"  # noqa: S105  # of a server that lives for a test
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = []
[agent]
workspace = "{folder}"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-test-of-a-key"
"""
READING = (
    "for f in environ mem maps auxv fd/1 fdinfo/1; do head -c 1 /proc/{pid}/$f >/dev/null && echo $f; done"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the user whom the tests are."""
    with TemporaryDirectory() as name:
        if AS_NOBODY:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


async def said_by(*words: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(*AS_NOBODY, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.defpath, **environment},
        cwd="/",
    )
    return (await process.communicate())[0].decode()


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncGenerator[tuple[str, int]]:
    """`holdfast serve` as that user, with a secret in its environment: its address and its pid."""
    await asyncio.to_thread((folder / "holdfast.toml").write_text, CONFIG.format(folder=folder, url=url))
    process = await asyncio.create_subprocess_exec(
        *(*AS_NOBODY, sys.executable, "-m", "holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "HOME": str(folder), "SOME_API_KEY": SECRET},
        cwd=folder,
    )
    assert process.stdout is not None
    try:
        while not (line := (await process.stdout.readline()).decode()).startswith("Open "):
            assert line, "the server did not start"
        yield line.split()[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


async def test_no_program_of_the_same_user_reads_the_servers_memory_or_environment(folder: Path) -> None:
    """P11: a tool runs as that user."""
    async with ChaosServer() as chaos, serving(folder, chaos.base_url) as (_, pid):
        assert await said_by("bash", "-c", READING.format(pid=pid)) == ""
        # The same reading finds everything in a process that does not hide.
        seen = await said_by("bash", "-c", f"sleep 60 & {READING.format(pid='$!')}; kill $!")
        assert "environ" in seen.split()


async def test_what_a_tool_starts_has_neither_secrets_nor_files_of_the_server(folder: Path) -> None:
    """P5, P11: a hidden server still runs, sees and stops its tools; they inherit nothing."""
    command = "env; ls -l /proc/self/fd; cat /proc/$PPID/environ; exit 0"
    scripts = ([CallTool("shell", {"command": command})], [Say("done")])
    async with (
        ChaosServer(*scripts) as chaos,
        serving(folder, chaos.base_url) as (url, _),
        aiohttp.ClientSession() as http,
    ):
        async with http.post(f"{url}/v1/runs", json={"input": "look"}) as answer:
            run_id = (await answer.json())["run_id"]
        result = ""
        async with http.get(f"{url}/v1/runs/{run_id}/events?view=native") as events:
            async for line in events.content:
                if not line.startswith(b"data: "):
                    continue
                event = json.loads(line[6:])
                if event["type"] == "approval.asked":
                    await http.post(f"{url}/v1/runs/{run_id}/approval", json={"choice": "once"})
                elif event["type"] == "tool.ended":
                    result = event["result"]
        assert "PATH=" in result
        assert SECRET not in result
        assert "holdfast.db" not in result
        assert str(folder / "data" / "lock") not in result
        assert "socket:" not in result


async def test_a_hidden_process_still_opens_folders_for_its_children_and_finds_them() -> None:
    """P5: what it reads of itself in /proc belongs to root from then on."""
    program = """
import os, subprocess, sys
from holdfast import hide_process
from holdfast.tools.shell import process_table as proctable
hide_process()
folder = os.open("/", os.O_RDONLY)
child = subprocess.Popen(["/bin/sh", "-c", "echo up; read line"], env={"MARK": "of-a-test"},
                         cwd=f"/proc/self/fd/{folder}", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()  # its environment is there only once it really runs
print(b"of-a-test" in proctable.environ_of(child.pid))
print(proctable.look(os.getpid()).pid == os.getpid())
print(proctable.tag_of(child.pid) > 0 and proctable.tag_of(os.getpid()) > 0)
print(len(os.listdir("/proc/self/fd")) > 3)
print(child.pid in proctable.with_descendants(proctable.table(), {os.getpid()}))
child.kill()
child.wait()
"""
    assert (await said_by(sys.executable, "-c", program)).split() == ["True"] * 5
