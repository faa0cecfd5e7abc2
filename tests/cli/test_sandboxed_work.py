"""A day's work in the sandbox with the real program: no needless question, and all of it can be undone."""

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cli.lab import command, configured
from holdfast.chaos import CallTool, ChaosServer, Say
from sandbox.confined_world import HAS_BUBBLEWRAP
from stream_server import stream_server

TESTS = 'test "$(sh app.sh)" = hello && test -z "$KEY" && echo 1 passed'
MORE = """
[approvals]
mode = "workspace"
[sandbox]
mode = "require"
network = ["{host}", "127.0.0.1"]
"""


@asynccontextmanager
async def _index() -> AsyncGenerator[int]:
    """A package index with one package, on loopback."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("lib/package.sh")
        entry.size = len(b"echo hello\n")
        archive.addfile(entry, io.BytesIO(b"echo hello\n"))
    body = packed.getvalue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with stream_server(serve) as port:
        yield port


def _made(workspace: Path) -> dict[str, str]:
    for name, text in {
        "app.sh": ". lib/package.sh\n",
        "test.sh": TESTS + "\n",
        "AGENTS.md": "Be kind.\n",
        ".git/config": "[core]\n",
        ".env": "KEY=secret\n",
    }.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    return _contents(workspace)


def _contents(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_text() for path in workspace.rglob("*") if path.is_file()
    }


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_an_agent_installs_tests_and_breaks_things_unasked_and_all_of_it_is_undone(
    tmp_path: Path,
) -> None:
    """P13: what a command took from protected files is in quarantine, whatever is undone."""
    workspace = tmp_path / "ws"
    before = await asyncio.to_thread(_made, workspace)
    async with _index() as port:
        host = f"index.localhost:{port}"
        install = f"curl -sSf --noproxy '' http://{host}/package.tar | tar x && sh test.sh"
        steps = (
            CallTool("shell", {"command": install}),
            CallTool("write_file", {"path": "app.sh", "content": ". lib/package.sh; false\n"}),
            CallTool("shell", {"command": "sh test.sh; cat .env"}),
            CallTool("shell", {"command": "rm -rf test.sh lib; echo evil > .envrc; echo x >> AGENTS.md"}),
        )
        async with ChaosServer(*([step] for step in steps), [Say("done")]) as chaos:
            await asyncio.to_thread(configured, tmp_path, chaos.base_url, more=MORE.format(host=host))
            ran = await command(tmp_path, "run", "go", "--workspace", str(workspace))
            assert (ran.code, ran.out) == (0, "done\n"), ran.err
            told = str(chaos.seen.requests[-1])
    assert (ran.code, ran.out) == (0, "done\n"), ran.err
    assert "1 passed" in told
    assert "KEY=secret" not in told
    after = await asyncio.to_thread(_contents, workspace)
    assert after == {
        **{name: text for name, text in before.items() if name != "test.sh"},
        "app.sh": ". lib/package.sh; false\n",
    }
    undone = await command(tmp_path, "undo")
    assert undone.code == 0, undone.err
    assert await asyncio.to_thread(_contents, workspace) == before
    (kept,) = json.loads((await command(tmp_path, "quarantine", "list", "--json")).out)
    assert kept["path"] == str(workspace / ".envrc")
    restored = await command(tmp_path, "quarantine", "restore", kept["id"])
    assert (restored.code, restored.out) == (0, f"Restored: {workspace}/.envrc\n"), restored.err
    assert (await asyncio.to_thread(_contents, workspace))[".envrc"] == "evil\n"
