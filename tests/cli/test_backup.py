"""The backup and the restoring that docs/operations.md describes, carried out as they stand there."""

import asyncio
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docs.reading import CONFIG, DOCS, all_blocks, blocks
from forked import fork
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.cli.demo.server import clean_environment
from holdfast.journal.spool import Spool

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 200


class Owner:
    """Someone with a home, who follows the document."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / ".local" / "share" / "holdfast"
        self.environ = {
            **clean_environment(),
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{clean_environment()['PATH']}",
            "HOLDFAST_CONFIG": f"{home}/mine.toml",
        }

    async def shell(self, script: str) -> None:
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"set -eu\n{script}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.environ,
            cwd=self.home,
        )
        out, _ = await shell.communicate()
        assert shell.returncode == 0, out.decode()

    @asynccontextmanager
    async def serving(self, *, end_with: signal.Signals) -> AsyncGenerator["Api"]:
        process = await fork("serve", cwd=self.home, env=self.environ)
        assert process.stdout is not None
        greeting = (await process.stdout.readline()).decode()
        url = next(word for word in greeting.split() if word.startswith("http://"))
        key = (await asyncio.to_thread((self.data / "api-key").read_text)).strip()
        try:
            async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {key}"}) as http:
                yield Api(http, key)
        finally:
            process.send_signal(end_with)
            await process.communicate()


class Api:
    """The server, as the owner's key opens it."""

    def __init__(self, http: aiohttp.ClientSession, key: str) -> None:
        self._http = http
        self.key = key

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        async with self._http.request(method, path, data=data) as answer:
            assert answer.ok, await answer.text()
            return await answer.json()

    async def bytes(self, path: str) -> bytes:
        async with self._http.get(path) as answer:
            assert answer.ok, await answer.text()
            return await answer.read()

    async def start(self, said: object) -> str:
        return (await self.call("POST", "/v1/runs", {"input": said, "session_id": "s"}))["run_id"]

    async def allow(self, run_id: str) -> None:
        async with self._http.get(f"/v1/runs/{run_id}/events") as answer:
            async for line in answer.content:
                if b"approval.request" in line:
                    break
        await self.call("POST", f"/v1/runs/{run_id}/approval", {"choice": "once"})

    async def ended(self, run_id: str) -> dict[str, Any]:
        await self.bytes(f"/v1/runs/{run_id}/events")
        return await self.call("GET", f"/v1/runs/{run_id}")


def content_with(blob: str) -> list[dict[str, str]]:
    picture = {"type": "image", "blob": blob, "media_type": "image/png", "name": "a.png"}
    return [{"type": "text", "text": "what is it?"}, picture]


def only_for_its_owner(folder: Path) -> bool:
    found = [folder, *(Path(root) / name for root, _, names in os.walk(folder) for name in names)]
    return not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in found)


@pytest.mark.parametrize("kind", ["file", "database"])
async def test_what_was_backed_up_while_it_ran_comes_back_after_all_was_lost(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """P6: sessions, blobs, snapshots and the key are there again, and the run under way goes on.

    What waited to be written after the backup is no part of what comes back. A database is restored into
    another one, which is empty.
    """
    owner, gate = Owner(tmp_path), Gate()
    if kind == "database":
        owner.environ["HOLDFAST_STORE"] = request.getfixturevalue("postgres_dsn")
    (backup,) = [text for text in blocks(DOCS / "operations.md", "sh") if "holdfast backup" in text]
    (restore,) = [
        block.text for block in all_blocks(DOCS / "operations.md") if "holdfast restore backup" in block.text
    ]
    notes = tmp_path / "notes.txt"
    write = CallTool("write_file", {"path": "notes.txt", "content": "new"})
    scripts = [write], [Say("a walrus")], [Say("half of"), Wait(gate)], [Say("the whole")], [Say("as before")]
    async with ChaosServer(*scripts) as chaos:
        await asyncio.to_thread((tmp_path / "mine.toml").write_text, CONFIG.format(url=chaos.base_url))
        await asyncio.to_thread(notes.write_text, "old")
        async with owner.serving(end_with=signal.SIGKILL) as api:
            blob = (await api.call("POST", "/api/blobs", PICTURE))["blob"]
            wrote = await api.start([{"role": "user", "content": content_with(blob)}])
            await api.allow(wrote)
            await api.ended(wrote)
            under_way = await api.start("and this?")
            await gate.reached()
            await owner.shell(backup)
            first_key = api.key
        assert await asyncio.to_thread(only_for_its_owner, tmp_path / "backup")
        await asyncio.to_thread(shutil.rmtree, owner.data)
        await asyncio.to_thread(owner.data.mkdir, mode=0o700)
        if kind == "database":
            owner.environ["HOLDFAST_STORE"] = request.getfixturevalue("new_postgres_dsn")
        late = e.TextDelta(at_ms=1, run_id="run_later", segment=0, text="of a log that is lost")
        await Spool(owner.data / "spool").put("s", "run_later", [late])
        await owner.shell(restore)
        assert await asyncio.to_thread(only_for_its_owner, owner.data)
        async with owner.serving(end_with=signal.SIGTERM) as api:
            assert api.key == first_key
            assert (await api.ended(under_way))["output"] == "the whole"
            assert await api.bytes(f"/api/blobs/{blob}") == PICTURE
            assert (await api.ended(await api.start("still there?")))["output"] == "as before"
            assert await asyncio.to_thread(notes.read_text) == "new"
            await api.call("POST", f"/v1/runs/{wrote}/undo", {})
            assert await asyncio.to_thread(notes.read_text) == "old"
    sent = json.dumps(chaos.seen.requests[-1].body)
    assert all(words in sent for words in ("what is it?", "a walrus", "the whole", "still there?"))
