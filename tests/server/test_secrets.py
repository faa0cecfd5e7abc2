"""No secret gets out: a real server, a provider that gives them away, and a look at every byte afterwards."""

import asyncio
import base64
import json
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from holdfast.chaos import CallTool, ChaosServer, ErrorEvent, Say, Status, Think

MODEL_KEY = "sk-model-9f8e7d6c5b4a3210"
HEADER_KEY = "hdr-key-0123456789abcdef"
SERVER_KEY = "server-key-of-the-owner-42"
CONFIG = """
[server]
port = 0
data_dir = "data"
api_keys = ["env:SERVER_KEY"]
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "env:MODEL_KEY"
headers = {{ "x-api-token" = "env:HEADER_KEY" }}
retry = {{ attempts_max = 1 }}
"""
ECHO = {
    "error": {"message": f"Incorrect API key provided: {MODEL_KEY} / {HEADER_KEY}", "code": "invalid_api_key"}
}


class Browser:
    """A client that keeps every byte that it was ever sent."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http
        self.seen = b""

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body)
        async with self._http.request(method, self._url + path, data=data, headers=headers) as answer:
            whole = await answer.read()
        self.seen += whole + str(answer.headers).encode()
        return json.loads(whole) if answer.content_type == "application/json" else whole

    async def run(self, text: str) -> dict[str, Any]:
        """Start a run, follow it in both views to its end, and show it in every way there is."""
        started = await self.call("POST", "/v1/runs", {"input": text, "session_id": "s"})
        run_id = started["run_id"]
        await self._approve_all(run_id)
        for view in ("hermes", "native"):
            await self.call("GET", f"/v1/runs/{run_id}/events?view={view}")
        await self.call("GET", f"/v1/runs/{run_id}/events?cursor=0")
        return await self.call("GET", f"/v1/runs/{run_id}")

    async def _approve_all(self, run_id: str) -> None:
        """Follow the run to its end, and approve whatever it asks for."""
        async with self._http.get(f"{self._url}/v1/runs/{run_id}/events") as answer:
            async for line in answer.content:
                self.seen += line
                if not line.startswith(b"data: "):
                    continue
                frame = json.loads(line.removeprefix(b"data: "))
                if frame["event"] == "approval.request":
                    await self.call("GET", "/v1/approvals")
                    approval = {"choice": "once", "approval_id": frame["approval_id"]}
                    await self.call("POST", f"/v1/runs/{run_id}/approval", approval)

    async def look_everywhere(self) -> None:
        for path in (
            *("/v1/runs", "/api/sessions", "/api/sessions?q=key", "/api/targets", "/health/detailed"),
            *("/metrics", "/v1/capabilities", "/v1/models", "/openapi.json", "/api/keys", "/v1/approvals"),
            *("/api/sessions/s/messages", "/api/sessions/s/export", "/api/sessions/s/export?format=md"),
        ):
            await self.call("GET", path)


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncGenerator[Browser]:
    await asyncio.to_thread((folder / "holdfast.toml").write_text, CONFIG.format(url=url), "utf-8")
    secrets = {"MODEL_KEY": MODEL_KEY, "SERVER_KEY": SERVER_KEY, "HEADER_KEY": HEADER_KEY}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **secrets},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    greeting = (await process.stdout.readline()).decode()
    try:
        assert greeting, (await process.communicate())[1].decode()
        words = [word for word in greeting.split() if word.startswith("http://")]
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {SERVER_KEY}"}) as http:
            browser = Browser(words[0], http)
            yield browser
    finally:
        process.send_signal(signal.SIGTERM)
        said, complained = await process.communicate()
    browser.seen += greeting.encode() + said + complained


async def misplace(browser: Browser, secret: str, **headers: str) -> None:
    """Put a key, by mistake, wherever a client can put a text."""
    text = f"use {secret} please"
    inline = "data:text/plain;base64," + base64.b64encode(text.encode()).decode()
    file = {"type": "input_file", "filename": "notes.txt", "file_data": inline}
    said = {"role": "user", "content": [{"type": "input_text", "text": text}, file]}
    run = {"input": [said, said], "session_id": "s", "metadata": {"note": text}, "client_id": text}
    await browser.call("POST", "/v1/runs", run, **headers, **{"Idempotency-Key": secret})
    history = [{"role": "user", "content": text}]
    await browser.call("POST", "/v1/runs", {"input": "hi", "conversation_history": history}, **headers)
    for body in ({"input": "hi", "session_id": secret}, {"input": "hi", "when_busy": secret}):
        assert "error" in await browser.call("POST", "/v1/runs", body, **headers)
    assert "error" in await browser.call("POST", "/api/keys", {"name": secret}, **headers)
    await browser.call("POST", "/api/sessions", {"title": text, "session_id": f"of {secret[:4]}"}, **headers)
    assert "error" in await browser.call("POST", "/api/sessions", {"session_id": secret}, **headers)
    await browser.call("PUT", "/api/sessions/s/draft", {"text": text}, **headers)
    stored = await browser.call("POST", "/api/blobs", text, **headers)
    assert json.loads(await browser.call("GET", f"/api/blobs/{stored['blob']}")) == "use [redacted] please"
    for path in (
        "/v1/runs/{}",
        "/api/sessions/{}",
        "/v1/models/{}",
        "/v1/responses/{}",
        "/v1/runs?status={}",
    ):
        assert "error" in await browser.call("GET", path.format(secret), **headers)


def bytes_of(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file that the server keeps, log and database included."""
    return ((path, path.read_bytes()) for path in sorted((folder / "data").rglob("*")) if path.is_file())


async def test_no_secret_is_in_any_answer_stream_log_or_file(tmp_path: Path) -> None:
    """P11: not when the provider echoes it, the model says it in two pieces, or a tool looks for it."""
    half, rest = MODEL_KEY[:9], MODEL_KEY[9:]
    scripts: list[list[Any]] = [
        [Status(401, body=json.dumps(ECHO))],
        [Say(f"the key is {half}"), Say(f"{rest}, and yours is {SERVER_KEY[:5]}"), Say(f"{SERVER_KEY[5:]}.")],
        [Think(f"hm, {half}"), Think(rest), Say("done")],
        [CallTool("shell", {"command": "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"})],
        [CallTool("shell", {"command": f"echo {half}{rest} {HEADER_KEY} > stolen; cat stolen"})],
        [Say("found")],
        [Say("so "), ErrorEvent(f"upstream said {MODEL_KEY}")],
        [Say("heard")],
    ]
    async with ChaosServer(*scripts, after_last="repeat") as chaos:
        async with serving(tmp_path, chaos.base_url) as browser:
            refused = await browser.run("first")
            assert (refused["status"], refused["code"]) == ("failed", "auth")
            assert "provided: [key] / [key]" in refused["error"]
            assert (await browser.run("second"))[
                "output"
            ] == "the key is [redacted], and yours is [redacted]."
            assert (await browser.run("third"))["output"] == "done"
            assert (await browser.run("look for keys"))["output"] == "found"
            await browser.run("an error in mid-stream")
            spoken = await browser.run(f"my key is {MODEL_KEY}, keep it")
            assert spoken["output"] == "heard"
            wrong = {"input": 7, "session_id": "s"}
            await browser.call("POST", "/v1/runs", wrong, Authorization=f"Bearer {MODEL_KEY}")
            await browser.call("PUT", "/api/sessions/s/draft", {"text": f"use {MODEL_KEY}"})
            await browser.call("PATCH", "/api/sessions/s", {"title": f"about {SERVER_KEY}"})
            made = await browser.call("POST", "/api/keys", {"name": "spare"})
            browser.seen = browser.seen.replace(made["key"].encode(), b"")  # the one answer that may hold it
            await misplace(browser, made["key"], Authorization=f"Bearer {made['key']}")
            for secret in (MODEL_KEY, SERVER_KEY):
                await misplace(browser, secret)
            await browser.look_everywhere()
        asked = chaos.seen.requests
    assert asked[0].headers["authorization"] == f"Bearer {MODEL_KEY}"
    assert MODEL_KEY not in str([request.body for request in asked])
    kept = await asyncio.to_thread(lambda: list(bytes_of(tmp_path)))
    assert any(path.name == "holdfast.db" for path, _ in kept)
    assert any(path.suffix == ".log" for path, _ in kept)
    for secret in (MODEL_KEY, HEADER_KEY, SERVER_KEY, made["key"]):
        at = browser.seen.find(secret.encode())
        assert at < 0, browser.seen[max(0, at - 300) : at + 100]
        assert [path.name for path, data in kept if secret.encode() in data] == [], secret
