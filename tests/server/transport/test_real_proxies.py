"""The recipe's configurations of nginx and Caddy, run by Debian's packages in front of a real server."""

import asyncio
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from docs.reading import DOCS, blocks
from forked import fork
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from host.certificates import write_certificate
from ports import reserved_port
from runner.program import configure
from serving import frames_in

pytestmark = [pytest.mark.release, pytest.mark.timeout(180)]

RECIPE = DOCS / "recipes" / "reverse-proxy.md"
KEY = "hf-a-key-of-a-test-that-is-long-enough"
NGINX = """
daemon off; user root; pid {folder}/nginx.pid; error_log stderr; worker_processes 1;
events {{}}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; {servers} }}
"""
OWN_SERVER = """
server {{
listen {port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; {inner}
}}
"""


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of Debian's packages, unpacked but not installed."""
    folder = tmp_path_factory.mktemp("debs")
    if shutil.which("apt-get") is None:
        pytest.skip("Debian's packages aren't available here")
    for name in ("nginx", "caddy"):
        found = subprocess.run(["apt-get", "download", name], cwd=folder, capture_output=True, check=False)
        if found.returncode:
            pytest.skip(f"the package {name} can't be downloaded: {found.stderr.decode()[-200:]}")
    for deb in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(folder)], check=True)
    return folder


def of_recipe(language: str, nth: int, **replaced: str) -> str:
    """A block of the recipe, with the places of this test."""
    text = blocks(RECIPE, language)[nth]
    for old, new in replaced.items():
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


@asynccontextmanager
async def proxy(*command: str, env: dict[str, str]) -> AsyncGenerator[None]:
    """A proxy; what it complains about is shown if the test fails."""
    started = await asyncio.create_subprocess_exec(*command, env=env)
    try:
        yield
    finally:
        if started.returncode is None:
            started.terminate()
        await started.wait()


@asynccontextmanager
async def reached(port: int, folder: Path) -> AsyncGenerator[aiohttp.ClientSession]:
    """A client that trusts the proxy's certificate, once the proxy listens."""
    trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    connector = aiohttp.TCPConnector(ssl=trusting)
    base = f"https://localhost:{port}"
    async with aiohttp.ClientSession(base, connector=connector) as http:
        for _ in range(600):
            try:
                async with http.get("/"):
                    break
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
        yield http


async def check_server(http: aiohttp.ClientSession, origin: str, mount: str, gate: Gate) -> None:
    """The page, a secure cookie of this path, and a delta that arrives while the model still answers."""
    async with http.get(f"{mount}/") as page:
        assert f'"{mount}/assets/' in await page.text()
    sent = {"Origin": origin, "X-Holdfast-Page": ""}
    async with http.post(f"{mount}/api/sign-in", json={"key": KEY}, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        (cookie,) = answer.cookies.values()
        assert (bool(cookie["secure"]), cookie["path"]) == (True, mount or "/")
    auth = {"Authorization": f"Bearer {KEY}"}
    async with http.post(f"{mount}/v1/runs", json={"input": "hi"}, headers=auth) as started:
        run_id = (await started.json())["run_id"]
    async with http.get(f"{mount}/v1/runs/{run_id}/events?view=native", headers=auth) as stream:
        async for frame in frames_in(stream.content):
            if frame.data.get("type") == "text.delta":
                gate.open()
            if frame.data.get("type") == "run.ended":
                break
        else:
            raise AssertionError("the stream broke off")


@pytest.mark.parametrize("program", ["nginx", "caddy"])
@pytest.mark.parametrize("mount", ["", "/agents"])
async def test_the_recipe_works_as_printed(debs: Path, tmp_path: Path, program: str, mount: str) -> None:
    """P7: but for names, ports and certificates."""
    await asyncio.to_thread(write_certificate, tmp_path, "localhost")
    (tmp_path / "api-key").write_text(KEY)
    port, own, gate = reserved_port(), reserved_port(), Gate()
    nth, host = (1, "www.example.com") if mount else (0, "agents.example.com")
    places = {host: "localhost", "/etc/holdfast": str(tmp_path)}
    if mount:
        places["/run/holdfast"] = str(tmp_path)
    settings = of_recipe("toml", nth, **places).replace("[server]\n", "")
    upstream = {"/run/holdfast": str(tmp_path)} if mount else {"127.0.0.1:8642": f"127.0.0.1:{own}"}
    if program == "nginx":
        inner = of_recipe("nginx", nth, **upstream)
        if not mount:
            live = "/etc/letsencrypt/live/agents.example.com"
            inner = of_recipe(
                "nginx",
                0,
                **upstream,
                **{
                    "443": str(port),
                    f"{live}/fullchain.pem": f"{tmp_path}/cert.pem",
                    f"{live}/privkey.pem": f"{tmp_path}/key.pem",
                },
            )
        else:
            inner = OWN_SERVER.format(port=port, folder=tmp_path, inner=inner)
        (tmp_path / "proxy.conf").write_text(NGINX.format(folder=tmp_path, servers=inner))
        command = [str(debs / "usr/sbin/nginx"), "-c", str(tmp_path / "proxy.conf"), "-p", str(tmp_path)]
    else:
        tls = f"localhost:{port} {{\n tls {tmp_path}/cert.pem {tmp_path}/key.pem"
        site = of_recipe("caddyfile", nth, **upstream).replace(f"{host} {{", tls)
        (tmp_path / "proxy.conf").write_text(
            "{\n admin off\n auto_https disable_redirects\n servers {\n protocols h1 h2\n}\n}\n" + site
        )
        command = [
            str(debs / "usr/bin/caddy"),
            "run",
            "--adapter",
            "caddyfile",
            "--config",
            str(tmp_path / "proxy.conf"),
        ]
    async with ChaosServer([Say("hel"), Wait(gate), Say("lo")]) as chaos:
        configure(tmp_path, chaos.base_url, server=settings if mount else f"port = {own}\n{settings}")
        text = (tmp_path / "holdfast.toml").read_text().replace("api_keys = []\n", "", 1)
        (tmp_path / "holdfast.toml").write_text(text)
        server = await fork("serve", "--config", "holdfast.toml", cwd=tmp_path)
        assert server.stdout is not None
        assert b"Holdfast" in await server.stdout.readline()
        try:
            async with proxy(*command, env={"HOME": str(tmp_path)}), reached(port, tmp_path) as http:
                await check_server(http, f"https://localhost:{port}", mount, gate)
        finally:
            server.send_signal(signal.SIGTERM)
            await server.communicate()
