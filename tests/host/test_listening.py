"""Where the server listens: a Unix socket, and TLS with files that are renewed."""

import asyncio
import json
import signal
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from forked import fork
from holdfast.chaos import ChaosServer, Drop, Say
from holdfast.client.address import Address, ClientPatience, at
from holdfast.client.client import Client
from holdfast.client.errors import Unreachable
from holdfast.config.server import ServerSettings
from holdfast.host.listening import SOCKET_MODE, TlsFiles, listen
from host.certificates import write_certificate
from runner.program import configure


async def test_commands_find_a_server_on_a_unix_socket_and_its_log_is_json(tmp_path: Path) -> None:
    """P12: the lines about a request, a session and a run have their ids."""
    path = tmp_path / "h.sock"
    async with ChaosServer([Drop()], [Say("hello")]) as chaos:
        configure(tmp_path, chaos.base_url, server=f'unix_socket = "{path}"')
        text = (tmp_path / "holdfast.toml").read_text()
        (tmp_path / "holdfast.toml").write_text(text + '[log]\nformat = "json"\n')
        server = await fork("serve", "--config", "holdfast.toml", cwd=tmp_path)
        assert server.stdout is not None
        assert str(path) in (await server.stdout.readline()).decode()
        assert path.stat().st_mode & 0o777 == SOCKET_MODE
        run = await fork("run", "--config", "holdfast.toml", "hi", cwd=tmp_path)
        out, _ = await run.communicate()
        assert b"hello" in out, out
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
            http.get("http://localhost/v1/runs/run_unknown") as unknown,
        ):
            assert unknown.status == 404
        server.send_signal(signal.SIGTERM)
        await server.communicate()
        assert server.returncode == 0
    assert not path.exists()
    lines = [json.loads(line) for line in (tmp_path / "data" / "holdfast.log").read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= set(lines[0])
    (retry,) = (line for line in lines if line["logger"].startswith("holdfast.models"))
    assert (retry["run"][:4], retry["session"][:4], "request" in retry) == ("run_", "ses_", False)


def test_a_socket_that_a_killed_server_left_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    settings = ServerSettings(unix_socket=str(tmp_path / "h.sock"))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(settings.unix_socket)
    first = listen(settings)
    with pytest.raises(OSError, match="another server listens on it"):
        listen(settings)
    first.close()
    Path(settings.unix_socket).write_text("mine")
    with pytest.raises(OSError, match="a file of this name exists"):
        listen(settings)


async def test_commands_accept_the_certificate_of_their_own_server_alone(tmp_path: Path) -> None:
    """P11: its name needn't be that of the address, but another certificate is refused."""
    write_certificate(tmp_path, "agents.example")
    files = f'port = 0\ntls_cert = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"'
    async with ChaosServer([Drop()], [Say("hello")]) as chaos:
        configure(tmp_path, chaos.base_url, server=files)
        server = await fork("serve", "--config", "holdfast.toml", cwd=tmp_path)
        assert server.stdout is not None
        greeting = (await server.stdout.readline()).decode()
        assert "https://127.0.0.1:" in greeting
        run = await fork("run", "--config", "holdfast.toml", "hi", cwd=tmp_path)
        out, _ = await run.communicate()
        assert b"hello" in out, out
        write_certificate(tmp_path, "stranger.example")
        url = next(word for word in greeting.split() if word.startswith("https://"))
        other = Address(url, certificate=str(tmp_path / "cert.pem"))
        async with Client(where=at(other), patience=ClientPatience(call_s=0)) as client:
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.health()
        server.send_signal(signal.SIGTERM)
        await server.communicate()
        assert server.returncode == 0


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    """An unusable one is reported, and the old one stays."""
    write_certificate(tmp_path, "old.example")
    files = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
    context = await asyncio.to_thread(files.context)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    rounds: asyncio.Queue[None] = asyncio.Queue()
    looked = asyncio.Semaphore(0)

    async def next_round(_: float) -> None:
        looked.release()
        await rounds.get()

    async def shown() -> str:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(raw).subject.rfc4514_string()

    keeping = asyncio.create_task(files.keep_loaded(context, sleep_s=next_round))
    await looked.acquire()
    for content, name in ((None, "new.example"), ("no certificate", "new.example")):
        if content is None:
            await asyncio.to_thread(write_certificate, tmp_path, name)
        else:
            (tmp_path / "cert.pem").write_text(content)
        rounds.put_nowait(None)
        await looked.acquire()
        assert await shown() == f"CN={name}"
    keeping.cancel()
    server.close()
    await server.wait_closed()
