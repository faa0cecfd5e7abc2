"""What an answer under way costs the page's main thread, and beside it what the least of pages would cost.

The floor is a page that reads the same stream of events and appends their words to a paragraph, without
markdown, state or list. A machine under load makes both dearer, so their ratio says more than either.
"""

import asyncio
import json
import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from playwright.async_api import Browser, Page
from tests.page.browsing import Chat, chatting

from holdfast.chaos import Gate, Say, SayWords, Think, Wait

TRACED = ["devtools.timeline", "v8.execute", "disabled-by-default-devtools.timeline"]
KINDS = {
    "script": {"FunctionCall", "RunMicrotasks", "EvaluateScript", "v8.evaluateModule", "MinorGC", "MajorGC"},
    "style and layout": {"UpdateLayoutTree", "Layout"},
    "painting": {"PrePaint", "Paint", "Layerize", "Commit", "UpdateLayer"},
}
REST = "the browser's own work"
WORDS = (
    "The answer **comes** in pieces, with `code`, a [link](https://example.com/) and plain words; "
    "each of them is on disk before it is on the screen. "
)
LIST = "- one point that is made\n- another one, a little longer\n\n"
PASSAGE = 3 * WORDS + "\n\n" + LIST
LAST = "So it ends"
# The browser looks by itself, and seldom: a driver that asks again and again would be measured, too.
UNTIL_SHOWN = """async words => {
  const paragraphs = () => [...document.querySelectorAll('.prose p, .bare p')];
  while (!paragraphs().at(-1)?.textContent.includes(words)) await new Promise(done => setTimeout(done, 250));
}"""
FLOOR = """async ({sessionId, paceMs}) => {
  const box = document.createElement('div');
  box.className = 'bare';
  box.style = 'height: 100vh; overflow: auto; font: 16px/1.6 system-ui';
  document.body.replaceChildren(box);
  const inner = box.appendChild(document.createElement('div'));
  let last;
  const begin = () => { last = inner.appendChild(document.createElement('p')).appendChild(new Text()); };
  new ResizeObserver(() => { box.scrollTop = box.scrollHeight; }).observe(inner);
  begin();
  const answer = await fetch(`/api/sessions/${sessionId}/events?after=0&pace_ms=${paceMs}`,
    {headers: {Accept: 'text/event-stream'}});
  const decoder = new TextDecoder();
  let rest = '';
  const read = async reader => {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const frames = (rest + decoder.decode(piece.value, {stream: true})).split('\\n\\n');
      rest = frames.pop();
      let fresh = '';
      for (const frame of frames) {
        const at = frame.indexOf('data:');
        const event = at < 0 ? {} : JSON.parse(frame.slice(at + 5));
        if (event.type === 'text.delta') fresh += event.text;
      }
      fresh.split('\\n\\n').forEach((words, at) => {
        if (at > 0) begin();
        if (words !== '') last.appendData(words);
      });
    }
  };
  void read(answer.body.getReader());
}"""


def passages(tokens: int) -> tuple[str, int]:
    """A text of about so many tokens, and how many it has."""
    text = PASSAGE
    while text.count(" ") < tokens:
        text += PASSAGE
    return text + LAST, text.count(" ")


async def opened(page: Page, url: str, start: Any) -> None:
    """The page itself, with a question on its way."""
    del start
    await page.goto(url)
    await Chat(page).say("go")


async def bare(page: Page, url: str, start: Any) -> None:
    """The least page that shows the answer."""
    await page.route("**/assets/*", lambda route: route.abort())
    await page.goto(url)
    await page.unroute_all()
    await start("go", session_id="bare")
    await page.evaluate(FLOOR, {"sessionId": "bare", "paceMs": 100})


async def traced(browser: Browser, show: Any, *, tokens: int, pace_s: float) -> dict[str, float]:
    """The main thread's milliseconds for 100 tokens in the midst of an answer, by kind."""
    text, count = passages(tokens)
    begins, ends = Gate(), Gate()
    script = [
        Think("hm"),
        SayWords(PASSAGE),
        Wait(begins),
        SayWords(text, pace_s=pace_s),
        Wait(ends),
        Say("."),
    ]
    async with chatting(script, [Say("A title")]) as server:
        context = await browser.new_context(viewport={"width": 1200, "height": 800})
        page = await context.new_page()
        await show(page, server.url, server.served.start)
        await page.get_by_text("a little longer").wait_for()
        await asyncio.sleep(0.5)
        await browser.start_tracing(page=page, categories=TRACED)
        begins.open()
        await ends.reached()
        await page.evaluate(UNTIL_SHOWN, LAST)
        trace = json.loads(await browser.stop_tracing())["traceEvents"]
        ends.open()
        await context.close()
    return {kind: 100 * ms / count for kind, ms in main_thread(trace).items()}


def main_thread(trace: list[dict[str, Any]]) -> dict[str, float]:
    """What the page's main thread did, by kind, in milliseconds of its CPU; nothing is counted twice."""
    painted = Counter(one["pid"] for one in trace if one["name"] == "Paint")
    page = painted.most_common(1)[0][0]
    name = "CrRendererMain"
    threads = {
        one["tid"]
        for one in trace
        if one["name"] == "thread_name" and one["pid"] == page and one["args"]["name"] == name
    }
    steps = [one for one in trace if one.get("ph") == "X" and one["pid"] == page and one["tid"] in threads]
    kinds = {step: kind for kind, names in KINDS.items() for step in names}
    found = dict.fromkeys([*KINDS, REST], 0.0)
    within: list[tuple[float, str]] = []
    for step in sorted(steps, key=lambda one: (one["ts"], -one.get("dur", 0))):
        while within and within[-1][0] <= step["ts"]:
            within.pop()
        ms = step.get("tdur", 0) / 1000
        kind = kinds.get(step["name"], within[-1][1] if within else REST)
        if within:
            found[within[-1][1]] -= ms
        found[kind] += ms
        within.append((step["ts"] + step.get("dur", 0), kind))
    return found | {"all": sum(found.values())}


async def following(
    browser: Browser, *, rounds: int, tokens: int, pace_s: float
) -> Iterable[tuple[str, float, float]]:
    """Kind by kind the median for 100 tokens: of the page, and of the bare one, measured in turn with it."""
    pages: list[dict[str, float]] = []
    floors: list[dict[str, float]] = []
    for _ in range(rounds):
        pages.append(await traced(browser, opened, tokens=tokens, pace_s=pace_s))
        floors.append(await traced(browser, bare, tokens=tokens, pace_s=pace_s))
    return [
        (kind, statistics.median(one[kind] for one in pages), statistics.median(one[kind] for one in floors))
        for kind in pages[0]
    ]
