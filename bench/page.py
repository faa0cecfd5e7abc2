"""What the page costs: python bench/page.py [--quick].

A real browser, the real server and the scripted model in one process tree; the server's share is not counted.
Aims: under 80 kB over the wire, first paint under 0.3 s, under 5 ms of script for 100 tokens.
"""

import argparse
import asyncio
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tests.page.browsing import Chat, chatting  # noqa: E402
from tests.page.long_log import put_long_session  # noqa: E402
from tests.serving import Setting  # noqa: E402

from following import following  # noqa: E402
from holdfast.chaos import SayWords  # noqa: E402
from holdfast.journal.memory import MemoryStore  # noqa: E402
from holdfast.redaction import NO_SECRETS  # noqa: E402
from holdfast.server.page import BUILT, read_page  # noqa: E402

AIMS = {"script": "   aim < 5 ms"}
SEEN = """() => {
  window.seen = [];
  const look = () => {
    const answers = document.querySelectorAll('article[aria-label=Assistant]');
    const text = answers.length ? answers[answers.length - 1].textContent : '';
    const last = window.seen.at(-1);
    if (!last || last[0] !== text.length) window.seen.push([text.length, Date.now()]);
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""
# The browser waits by itself, and looks seldom: a driver that asks again and again would be measured, too.
UNTIL_DONE = """async runs => {
  while (document.querySelectorAll('.ending-row').length < runs) {
    await new Promise(done => setTimeout(done, 250));
  }
}"""
TO_THE_TOP = """async () => {
  const box = document.querySelector('section[aria-label=Conversation]');
  while (document.querySelector('.above')) {
    box.scrollTop = 0;
    await new Promise(done => setTimeout(done, 20));
  }
}"""
FRAMES = """async () => {
  const box = document.querySelector('section[aria-label=Conversation]');
  const times = [];
  let before = performance.now();
  const end = before + 3000;
  while (before < end) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - before);
    before = now;
    box.scrollTop = Math.max(0, box.scrollTop - 120);
  }
  return times.slice(1);
}"""


def line(what: str, value: str, aim: str = "") -> None:
    print(f"{what:<52} {value:>14}  {aim}")


def share(values: list[float], of: float) -> float:
    return sorted(values)[int(of * (len(values) - 1))] if values else 0.0


async def tell(tools: CDPSession, method: str, **fields: str) -> Any:
    """The browser's own protocol, which has no types."""
    return await tools.send(method, fields)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


async def metrics(tools: CDPSession) -> dict[str, float]:
    found = await tell(tools, "Performance.getMetrics")
    return {one["name"]: one["value"] for one in found["metrics"]}


async def fresh(browser: Browser, url: str) -> tuple[Chat, CDPSession]:
    context = await browser.new_context(viewport={"width": 1200, "height": 800})
    page = await context.new_page()
    tools = await context.new_cdp_session(page)
    # CPU time of the thread: on a busy machine the clock on the wall says little.
    await tell(tools, "Performance.enable", timeDomain="threadTicks")
    await page.goto(url)
    return Chat(page), tools


def sizes() -> None:
    zipped = {name: (BUILT / name).stat().st_size for name in read_page(BUILT) if name.endswith(".gz")}
    for name, size in zipped.items():
        line(name, f"{size:,} B")
    line("over the wire in all", f"{sum(zipped.values()) / 1000:.1f} kB", "aim < 80 kB")


async def painted(page: Page) -> tuple[float, float]:
    """First paint, and when the text field takes words: milliseconds since the navigation began."""
    await Chat(page).box.wait_for()
    first = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    while not (paint_ms := await page.evaluate(first)):
        await page.evaluate("new Promise(requestAnimationFrame)")
    ready = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    return paint_ms, await page.evaluate(ready)


async def opening(browser: Browser, url: str, *, rounds: int) -> None:
    paints: list[float] = []
    ready: list[float] = []
    for _ in range(rounds):
        chat, _ = await fresh(browser, url)
        paint_ms, ready_ms = await painted(chat.page)
        paints.append(paint_ms)
        ready.append(ready_ms)
        await chat.page.context.close()
    line("first paint, nothing cached (median)", f"{statistics.median(paints):.0f} ms", "aim < 300 ms")
    line("script done (median)", f"{statistics.median(ready):.0f} ms")


async def streaming(browser: Browser, *, rounds: int, tokens: int, pace_s: float) -> None:
    """The main thread's work for an answer that comes word by word, and what no page could do without."""
    pace = f"a token each {1000 * pace_s:.0f} ms" if pace_s else "all at once"
    found = await following(browser, rounds=rounds, tokens=tokens, pace_s=pace_s)
    line(f"for 100 tokens, {pace} (median)", "the page", "a bare append")
    for kind, ms, floor_ms in found:
        line(f"  {kind}", f"{ms:.1f} ms", f"{floor_ms:.1f} ms{AIMS.get(kind, '')}")


async def delays(browser: Browser, *, tokens: int, pace_s: float) -> None:
    """How late the words of an answer are on the screen."""
    async with chatting([SayWords("word " * tokens, pace_s=pace_s)]) as server:
        chat, _ = await fresh(browser, server.url)
        await chat.box.wait_for()
        await chat.page.evaluate(SEEN)
        await chat.say("go")
        await chat.page.evaluate(UNTIL_DONE, 1)
        seen: list[tuple[int, int]] = await chat.page.evaluate("window.seen")
        log = await _log(server.served.get, chat.page.url.rpartition("/")[2])
        found = _delays(log, seen)
        what = f"event to screen, a token each {1000 * pace_s:.0f} ms"
        line(f"{what} (median)", f"{statistics.median(found):.0f} ms")
        line(f"{what} (95 %)", f"{share(found, 0.95):.0f} ms")
        await chat.page.context.close()


async def _log(get: Any, session_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while True:
        after = events[-1]["seq"] if events else 0
        _, answer = await get(f"/api/sessions/{session_id}/events?after={after}&limit=1000")
        if not answer["events"]:
            return events
        events += answer["events"]


def _delays(log: list[dict[str, Any]], seen: list[tuple[int, int]]) -> list[float]:
    """For each event of the answer: when the screen had as many letters as the answer up to it."""
    found: list[float] = []
    chars = 0
    for event in log:
        if event["type"] == "text.delta":
            chars += len(event["text"])
            at_ms = next((at for letters, at in seen if letters >= chars - 1), None)
            found += [] if at_ms is None else [at_ms - event["at_ms"]]
    return found


async def long_session(browser: Browser, *, exchanges: int) -> None:
    store = MemoryStore(NO_SECRETS)
    await put_long_session(store, "long", exchanges=exchanges)
    async with chatting(setting=Setting(store=store)) as server:
        for round_ in ("cold", "warm"):
            chat, tools = await fresh(browser, f"{server.url}/s/long")
            await chat.page.get_by_text(f"Question {exchanges}:").first.wait_for()
            ms = await chat.page.evaluate("performance.now()")
            line(f"{2 * exchanges:,} messages: newest on the screen, {round_}", f"{ms:.0f} ms")
            if round_ == "cold":
                await chat.page.context.close()
        await tell(tools, "HeapProfiler.collectGarbage")
        heap = (await metrics(tools))["JSHeapUsedSize"] / 1e6
        line("  heap with the newest page", f"{heap:.1f} MB")
        await chat.page.evaluate(TO_THE_TOP)
        await tell(tools, "HeapProfiler.collectGarbage")
        found = await metrics(tools)
        line("  heap with all of them read", f"{found['JSHeapUsedSize'] / 1e6:.1f} MB")
        line("  DOM nodes", f"{found['Nodes']:,.0f}")
        await chat.talk.evaluate("box => { box.scrollTop = box.scrollHeight / 2; }")
        times: list[float] = await chat.page.evaluate(FRAMES)
        line("  frames while scrolling through them (median)", f"{statistics.median(times):.1f} ms")
        line("  frames while scrolling through them (95 %)", f"{share(times, 0.95):.1f} ms")
        await chat.page.context.close()
    await store.close()


async def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--quick", action="store_true", help="fewer rounds, a shorter talk")
    quick: bool = given.parse_args().quick
    await asyncio.to_thread(sizes)
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        async with chatting() as server:
            await opening(browser, server.url, rounds=3 if quick else 10)
        for pace_s in (0.0, 0.01):
            await streaming(browser, rounds=1 if quick else 5, tokens=300 if quick else 600, pace_s=pace_s)
        await delays(browser, tokens=100 if quick else 300, pace_s=0.04)
        await long_session(browser, exchanges=250 if quick else 2_500)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
