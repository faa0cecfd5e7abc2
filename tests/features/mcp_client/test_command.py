"""`holdfast mcp-sign-in`, with a browser on this machine and on another."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from features.mcp_client.locked import Locked, locked
from forked import fork
from holdfast.features.mcp_client.browser_sign_in import Browser, mcp_sign_in
from stream_server import stream_server

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])  # commands run on this loop


async def test_a_pasted_address_signs_in_and_forget_deletes_it(tmp_path: Path) -> None:
    async with locked(Locked()) as at:
        config = tmp_path / "holdfast.toml"
        await asyncio.to_thread(config.write_text, f'[[mcp_servers]]\nname = "tracker"\nurl = "{at.url}"\n')
        flags = {"config": str(config), "data_dir": str(tmp_path / "data")}
        where = ("--config", flags["config"], "--data-dir", flags["data_dir"])
        process = await fork("mcp-sign-in", "tracker", *where, cwd=tmp_path)
        assert process.stdout is not None
        assert process.stdin is not None
        lines = [(await process.stdout.readline()).decode() for _ in range(3)]
        given = parse_qs(urlsplit(lines[2].strip()).query)
        back = f"{given['redirect_uri'][0]}?code=code-1&state="
        process.stdin.write(f"{back}another\n{back}{given['state'][0]}\n".encode())
        await process.stdin.drain()
        printed, errors = await process.communicate()
        assert process.returncode == 0, errors
        assert "That isn't this sign-in's URL" in printed.decode()
        assert "Signed in to tracker. It has 1 tool" in printed.decode()
        folder = tmp_path / "data" / "mcp-sign-ins"
        assert len(list(folder.glob("*.json"))) == 1
        assert await asyncio.to_thread(mcp_sign_in, flags, name="tracker", forget=True) == 0
        assert not list(folder.glob("*.json"))
        assert await asyncio.to_thread(mcp_sign_in, flags, name="nobody") == 1


async def test_a_browser_that_comes_back_must_belong_to_the_sign_in() -> None:
    browser = Browser("http://127.0.0.1:1/callback")

    async def visit(line: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(line + b"\r\n\r\n")
        said = await reader.read()
        writer.close()
        await writer.wait_closed()
        return said

    async with stream_server(browser.answer) as port:
        assert b"404" in await visit(b"GET /callback?code=a&state=b HTTP/1.1")  # nothing was shown yet
        browser.expect("b")
        assert b"404" in await visit(b"GET /callback?code=evil&state=c HTTP/1.1")
        assert b"404" in await visit(b"nonsense")
        assert b"200 OK" in await visit(b"GET /callback?code=a&state=b HTTP/1.1")
        assert (await browser.came_back()).code == "a"
