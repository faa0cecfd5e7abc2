"""The way into the page: a link for whoever sits at a terminal, and a fresh one for whoever asks."""

import asyncio
import os
import pty
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from cli.lab import Ended, command, executed, started
from forked import Files, fork
from holdfast.cli.keys import sign_in

CONFIG = '[server]\nport = 0\ndata_dir = "{folder}/data"\n{keys}\n[agent]\nworkspace = "{folder}"\n'
TOKEN = re.compile(r"#token=([\w-]{20,})")


@asynccontextmanager
async def serving(folder: Path, *, out: int, keys: str = "") -> AsyncGenerator[None]:
    """`holdfast serve` that writes to this file; ended in order."""
    (folder / "holdfast.toml").write_text(CONFIG.format(folder=folder, keys=keys))
    files = Files(stdin=asyncio.subprocess.DEVNULL, stdout=out)
    process = await fork("serve", "--config", str(folder / "holdfast.toml"), cwd=folder, files=files)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


async def greeting(reader: asyncio.StreamReader) -> str:
    """What it says up to the last line of its greeting."""
    said = ""
    while "Try: curl" not in said:
        line = (await reader.readline()).decode()
        assert line, said
        said += line
    return said


async def reading(end: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb", 0)
    )
    return reader, transport


async def test_the_link_goes_to_a_terminal_and_never_into_a_file_or_a_pipe(tmp_path: Path) -> None:
    """P11: logs are kept, copied and read by many."""
    for opened in (pty.openpty, os.pipe):
        ours, theirs = opened()
        reader, transport = await reading(ours)
        try:
            async with serving(tmp_path, out=theirs):
                said = await greeting(reader)
                os.close(theirs)
        finally:
            transport.close()
        is_terminal = opened is pty.openpty
        assert bool(TOKEN.search(said)) == is_terminal, said
        assert "holdfast sign-in" in said
        for log in (tmp_path / "data").glob("*.log*"):
            assert not TOKEN.search(log.read_text())


async def test_a_fresh_link_signs_in_once_and_another_browser_gets_its_own(tmp_path: Path) -> None:
    """P11: for Docker and systemd, where nobody sees what the server prints."""
    ours, theirs = os.pipe()
    reader, transport = await reading(ours)
    async with serving(tmp_path, out=theirs), aiohttp.ClientSession() as http:
        url = (await greeting(reader)).split("Open ")[1].split()[0]
        links = [
            (await command(tmp_path, "sign-in", start=start)).out.strip() for start in (executed, started)
        ]
        for link in links:
            assert link.startswith(f"{url}/#token=")
            for status in (200, 401):
                body = {"token": link.partition("#token=")[2]}
                async with http.post(f"{url}/api/sign-in", json=body) as answer:
                    assert answer.status == status
        elsewhere = await command(tmp_path, "sign-in", "--url", "https://box.example/")
        assert elsewhere.out.startswith("https://box.example/#token=")
        added = await command(tmp_path, "keys", "add", "bot", "--scope", "chat")
        assert added.code == 0
        bearer = {"Authorization": f"Bearer {added.out.strip()}"}
        async with http.get(f"{url}/api/keys", headers=bearer) as answer:
            assert (await answer.json())["error"]["code"] == "missing_scope"
        assert re.search(r"bot .* chat +holdfast keys add", (await command(tmp_path, "keys", "list")).out)
        refused = await command(tmp_path, "keys", "add", "x", "--scope", "root")
        assert refused.code == 2
        assert "not root" in refused.err
    os.close(theirs)
    transport.close()


async def test_on_an_open_server_the_link_is_its_address(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    reader, transport = await reading(ours)
    async with serving(tmp_path, out=theirs, keys="api_keys = []"):
        url = (await greeting(reader)).split("Open ")[1].split()[0]
        assert await command(tmp_path, "sign-in") == Ended(0, f"{url}\n", "")
    os.close(theirs)
    transport.close()


def test_without_a_server_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sign_in({"data_dir": str(tmp_path / "data")}, url="") == 1
    assert "start one with `holdfast serve`" in capsys.readouterr().err
