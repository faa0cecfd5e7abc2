"""Open WebUI in a real browser, against `holdfast serve` and a scripted model.

    python bench/open_webui.py --cache ~/.cache/holdfast-clients [--record FILE]

Open WebUI is installed into the cache folder, at the version that client_environments.py pins, and connected
as docs/front-ends.md says. A person chats, uses one of Open WebUI's tools and one of the agent's, approves it
behind the link in the chat, and stops an answer. With `--record FILE`, the requests are added to it, for
tests. Only loopback addresses are contacted. The exit status is 1 if something differs.
"""

import argparse
import asyncio
import json
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Page, async_playwright, expect

from client_environments import folder_of, install, search_path
from client_model import turns_of
from client_scene import Recorder, holdfast
from holdfast.chaos import CallTool, ChaosServer, Hang, Say, SeenRequest, Step
from recorded_requests import written

NAME = "open-webui"
KEY = "client-key-of-open-webui-0123456789"
STARTED_S = 120.0
STOPPED_S = 60.0
SHOWN_MS = 30_000
HEADERS = {
    "X-Holdfast-Chat-Id": "{{CHAT_ID}}",
    "X-Holdfast-User-Id": "{{USER_ID}}",
    "X-Holdfast-Task": "{{TASK}}",
}
CONFIG = """\
[server]
port = 0
data_dir = "{base}/data"
api_keys = ["{key}"]
[agent]
workspace = "{base}/work"
[approvals]
mode = "ask"
[undo]
enabled = false
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}/v1"
model = "m"
api_key = "upstream"
"""


def answer(request: SeenRequest) -> Sequence[Step]:
    """The model's answer to one request."""
    body: dict[str, Any] = dict(request.body or {})
    last = turns_of(body)[-1]
    if not body.get("tools"):
        return [Say(json.dumps({"title": "A title", "tags": ["one"], "follow_ups": []}))]
    if last.role == "tool":
        return [Say(f"The tool says: {last.text[:20]}")]
    match last.text:
        case "the time":
            return [CallTool("get_current_timestamp", {})]
        case "a command":
            return [CallTool("shell", {"command": "touch done.txt && sudo ls"})]
        case "slowly":
            return [Say("It begins"), Hang()]
        case text:
            return [Say(f"You said: {text}")]


@asynccontextmanager
async def open_webui(program: Path, home: Path, url: str) -> AsyncGenerator[str]:
    """A server of Open WebUI, connected to this address; yields its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "DATA_DIR": str(home),
        "WEBUI_AUTH": "False",
        "WEBUI_SECRET_KEY": "secret",
        "OPENAI_API_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_API_CONFIGS": json.dumps({"0": {"enable": True, "headers": HEADERS}}),
        "ENABLE_OLLAMA_API": "False",
        "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
        "OFFLINE_MODE": "true",
        "ANONYMIZED_TELEMETRY": "false",
        "DO_NOT_TRACK": "true",
    }
    with (home / "printed.txt").open("wb") as printed:
        process = await asyncio.create_subprocess_exec(
            program,
            *("serve", "--host", "127.0.0.1", "--port", str(port)),
            env={"PATH": search_path(), "HOME": str(home)} | settings,
            cwd=home,
            stdout=printed,
            stderr=printed,
        )
        try:
            await _started(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            await process.wait()


async def _started(url: str) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(STARTED_S):
        while True:
            try:
                async with session.get(f"{url}/health") as answered:
                    if answered.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass  # it isn't listening yet
            await asyncio.sleep(0.5)


async def say(page: Page, text: str) -> None:
    """Send a message in Open WebUI."""
    await page.click("#chat-input")
    await page.keyboard.type(text)
    await page.keyboard.press("Enter")


async def use(page: Page, served: str, work: Path) -> None:
    """Do what a person does; raises AssertionError where something differs."""
    hello = page.get_by_role("button", name="Okay, Let's Go!")
    await page.add_locator_handler(hello, hello.click)
    await page.wait_for_selector("#chat-input", timeout=SHOWN_MS)
    await say(page, "hello")
    await expect(page.get_by_text("You said: hello")).to_be_visible()
    await expect(page).to_have_title("A title / Open WebUI")
    await say(page, "the time")
    await expect(page.get_by_text("The tool says").first).to_be_visible()
    await say(page, "a command")
    link = page.get_by_role("link", name=f"{served}/s/")
    await expect(link).to_be_visible()
    async with page.context.expect_page() as opened:
        await link.click()
    holdfast_page = await opened.value
    await holdfast_page.get_by_label("Key", exact=True).fill(KEY)
    await holdfast_page.keyboard.press("Enter")
    await holdfast_page.get_by_role("button", name="Allow once").click()
    await expect(page.get_by_text("The tool says").nth(1)).to_be_visible()
    assert (work / "done.txt").exists(), "the command didn't run"
    await say(page, "slowly")
    await expect(page.get_by_text("It begins")).to_be_visible()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()


async def check_runs(served: str) -> None:
    """The chat is one session, its last run was cancelled, and tasks are none of it."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        async with session.get(f"{served}/api/sessions") as answered:
            sessions = (await answered.json())["data"]
        assert len(sessions) == 1, sessions
        path = f"/v1/runs?session_id={sessions[0]['session_id']}"
        ends = ["running"]
        async with asyncio.timeout(STOPPED_S):
            while "running" in ends:  # a client that left can come back for a while
                async with session.get(served + path) as answered:
                    ends = [run["status"] for run in (await answered.json())["data"]]
                await asyncio.sleep(0.5)
    assert sorted(ends) == ["cancelled", *["completed"] * 3], ends


async def main(options: argparse.Namespace) -> int:
    """Run it once."""
    cache = options.cache.resolve()
    await install(cache, NAME)
    base = Path(tempfile.mkdtemp(prefix="open-webui-"))
    for folder in ("work", "home"):
        (base / folder).mkdir()
    recorder = Recorder()
    expect.set_options(timeout=SHOWN_MS)
    try:
        async with AsyncExitStack() as opened:
            chaos = await opened.enter_async_context(ChaosServer(choose=answer))
            config = CONFIG.format(base=base, key=KEY, url=chaos.url)
            port = await opened.enter_async_context(holdfast(config, base))
            served = await opened.enter_async_context(recorder.before(port))
            program = folder_of(cache, NAME) / "bin" / NAME
            url = await opened.enter_async_context(open_webui(program, base / "home", served))
            playwright = await opened.enter_async_context(async_playwright())
            chromium = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = await chromium.new_page()
            await page.goto(url)
            try:
                await use(page, served, base / "work")
                await check_runs(served)
            except AssertionError:
                await page.screenshot(path=str(base / "page.png"))
                raise
            finally:
                await chromium.close()
        if options.record:
            names = {KEY: "KEY", str(base): "/home/you"}
            written(options.record, NAME, recorder.requests(), names)
    except AssertionError as differs:
        print(f"FAILED: {differs}\n{base} has a picture and what Open WebUI printed")
        return 1
    shutil.rmtree(base, ignore_errors=True)
    print("all ok")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="where Open WebUI is installed")
    parser.add_argument("--record", type=Path, help="where requests are written, for tests")
    raise SystemExit(asyncio.run(main(parser.parse_args())))
