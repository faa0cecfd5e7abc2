"""Makes the pictures of docs/images/: a real server with a scripted model, seen in a real browser."""

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from holdfast.chaos import CallTool, ChaosServer, Hang, SayWords, Script, SeenRequest, Think, overloaded

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
PICTURE_BYTES_MAX = 200_000
PACE_S = 0.01
WINDOW = ViewportSize(width=1280, height=820)

CONFIG = """
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "demo-large"
patience = {{ first_event_s = 10, gap_s = 3 }}
retry = {{ backoff_base_s = 0.4 }}
"""

FILES = {
    "README.md": "# Parcel tracker\n",
    "src/tracker/cache.py": "CACHE_DAYS = 0\n",
    "ci/nightly.log": "00:00:04 fetch 4 s\n00:11:40 dependencies 696 s (cache: miss)\n00:13:02 tests 82 s\n",
    "ci/cache/old.tar": "x" * 4096,
}

SLOW = "Why is the nightly build so slow?"
CLEAN = "Clear the old build cache and tell me how much space that frees up."

SLOW_ANSWER = """The build itself is as fast as before. **The dependency cache is never hit**, so every \
package is downloaded again each night.

| step | last week | tonight |
|---|---:|---:|
| fetch | 4 s | 4 s |
| dependencies | 21 s | **696 s** |
| tests | 79 s | 82 s |

The cause is one line in `src/tracker/cache.py`: with a limit of zero days, the cache is always too old.

```python
CACHE_DAYS = 0  # was 7 until the last change
```

With `7`, the build takes about two minutes again. Should I change it and run the build once?"""

CLEAN_ANSWER = """Done. I deleted the old cache, which frees up **3.1 GB**. The next nightly build will be a \
little slower, because it has to fill the cache again."""

OTHERS = (
    ("Draft release notes for 0.9", "Write the release notes."),
    ("Rename the configuration keys", "Rename the configuration keys."),
    ("Compare two queue designs", "Compare the two designs."),
    ("Read the logs of last night's outage", "Read the logs."),
)


class Story:
    """Plays the model: what it answers depends on what was said last and on how often it was asked."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self, request: SeenRequest) -> Script:
        """The script for one request."""
        messages = msgspec.convert((request.body or {}).get("messages", []), list[dict[str, object]])
        said = [message.get("content") for message in messages if message.get("role") == "user"]
        after_tool = bool(messages) and messages[-1].get("role") == "tool"
        match said[-1] if said else "":
            case str(text) if text == SLOW:
                return [SayWords(SLOW_ANSWER, PACE_S)] if after_tool else self._look()
            case str(text) if text == CLEAN:
                return [SayWords(CLEAN_ANSWER, PACE_S)] if after_tool else self._clean()
            case _:
                return [SayWords("Here's a first draft. Tell me what to change.", PACE_S)]

    def _look(self) -> Script:
        return [
            Think("The log has the time of each step, so I'll compare those first. " * 2, chunk_chars=9),
            CallTool("read_file", {"path": "ci/nightly.log"}),
            CallTool("search_files", {"pattern": "CACHE_DAYS"}),
            CallTool("shell", {"command": "ls -l ci src/tracker"}),
        ]

    def _clean(self) -> Script:
        self._asked += 1
        if self._asked == 1:
            return [SayWords("First, I'll look at what the cache", PACE_S), Hang()]
        if self._asked == 2:  # noqa: PLR2004  # the second of three tries
            return [overloaded()]
        return [
            SayWords("I'll delete the old cache, then check the disk.", 0.05),
            CallTool("shell", {"command": "rm -r ci/cache && sleep 1 && df -h ci"}),
        ]


@asynccontextmanager
async def serving(folder: Path, model_url: str) -> AsyncGenerator[str]:
    """A server of its own on a free port; yields its URL."""
    workspace = folder / "workspace"
    for name, text in FILES.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    config = folder / "holdfast.toml"
    config.write_text(CONFIG.format(url=model_url))
    flags = ["--no-auth", "--port=0", f"--data-dir={folder / 'data'}", f"--workspace={workspace}"]
    process = await asyncio.create_subprocess_exec(
        *(ROOT / ".venv/bin/holdfast", "serve", f"--config={config}", *flags),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        greeting = (await process.stdout.readline()).decode()
        found = re.search(r"http://[\w.:]+", greeting)
        if found is None:
            raise SystemExit(f"the server did not start: {greeting}")
        yield found.group(0)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def say(page: Page, text: str) -> None:
    """Writes and sends a message in a new chat."""
    await page.get_by_role("button", name="New chat").first.click()
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def finished(page: Page) -> None:
    """Waits until nothing runs any more, and counts the open chat as read."""
    await page.get_by_role("button", name="Stop").wait_for(state="hidden")
    await page.get_by_role("navigation").get_by_title("Running").wait_for(state="detached")
    session_id = page.url.rpartition("/")[2]
    await call(page, "PATCH", f"/api/sessions/{session_id}", {"read_seq": 10_000})


async def call(page: Page, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
    """One request to the server, as the page would make it."""
    answer = await page.request.fetch(path, method=method, data=None if body is None else dict(body))
    if not answer.ok:
        raise SystemExit(f"{method} {path}: {await answer.text()}")
    return await answer.json()


async def fill_list(page: Page) -> None:
    """Earlier chats, so that the list looks as it does after a week."""
    for nth, (title, text) in enumerate(OTHERS):
        session_id = f"ses_{nth}"
        await call(page, "POST", "/api/sessions", {"session_id": session_id, "title": title})
        await call(page, "POST", f"/api/sessions/{session_id}/chat", {"message": text})
        await call(page, "PATCH", f"/api/sessions/{session_id}", {"pinned": nth == 0, "read_seq": 10_000})


async def shoot(page: Page, name: str) -> None:
    """One picture, once everything has come to rest."""
    await page.mouse.move(720, 440)
    await page.evaluate("document.activeElement?.blur()")
    await page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => null)))")
    path = OUT / f"{name}.png"
    await page.screenshot(path=path, animations="disabled", caret="hide")
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size // 1000} kB")
    if size > PICTURE_BYTES_MAX:
        raise SystemExit(f"{path.name} is over {PICTURE_BYTES_MAX} bytes")


async def make_pictures(browser: Browser, url: str) -> None:
    """All pictures, in the order in which the story goes."""
    page = await browser.new_page(
        base_url=url,
        viewport=WINDOW,
        color_scheme="light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    await page.goto("/")
    await fill_list(page)
    await say(page, SLOW)
    await page.get_by_text("Should I change it and run the build once?").first.wait_for()
    await finished(page)
    await shoot(page, "chat-light")
    await page.emulate_media(color_scheme="dark")
    await shoot(page, "chat-dark")
    await page.emulate_media(color_scheme="light")
    await say(page, CLEAN)
    once = page.get_by_role("button", name=re.compile("once", re.IGNORECASE))
    await once.click(trial=True)  # waits until it can be clicked
    await shoot(page, "approval")
    await once.click()
    await page.get_by_text("because it has to fill the cache again").first.wait_for()
    await finished(page)
    await page.get_by_role("button", name="Timeline", exact=True).click()
    await page.get_by_role("button", name="Copy JSON").wait_for()
    await shoot(page, "timeline")


async def main() -> None:
    """Start everything, take the pictures, and leave nothing behind."""
    OUT.mkdir(parents=True, exist_ok=True)
    async with ChaosServer(choose=Story()) as model, async_playwright() as playwright:
        with tempfile.TemporaryDirectory() as folder:
            async with serving(Path(folder), model.base_url) as url:
                browser = await playwright.chromium.launch(
                    executable_path=CHROMIUM, args=["--no-sandbox", "--force-color-profile=srgb"]
                )
                await make_pictures(browser, url)
                await browser.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
