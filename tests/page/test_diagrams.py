"""Diagrams in a real browser: drawn once they are whole, and hostile ones get nowhere."""

import re

import pytest
from playwright.async_api import Locator, Route, expect

from holdfast.chaos import Gate, Say, Wait
from page.browsing import Chat, Visit, requests_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

GOOD = "flowchart LR\n  A[Order] --> B{Paid?}\n  B -->|yes| C[Ship]\n  B -->|no| D[Remind]"
SEQUENCE = "sequenceDiagram\n  Ann->>Bob: Hello\n  Bob-->>Ann: Hi"
BROKEN = "flowchart LR\n  A -->"
HOSTILE = (
    'flowchart LR\n  A-->B\n  click A "javascript:parent.hacked=1"\n  click B call alert(1)',
    (
        '%%{init: {"securityLevel": "loose", "htmlLabels": true, "themeCSS": '
        '"*{background:url(https://evil.example/a)}"}}%%\nflowchart LR\n'
        "  A[\"<img src='https://evil.example/b' onerror='parent.hacked=2'>\"] --> B"
    ),
    'flowchart LR\n  A["<script>parent.hacked=3</script>x"] --> B["<a href=\'https://evil.example/c\'>c</a>"]',
    'flowchart LR\n  A@{ img: "https://evil.example/d", label: "d" } --> B',
)


def fenced(*diagrams: str) -> str:
    return "\n\n".join(f"```mermaid\n{text}\n```" for text in diagrams)


def pictures(chat: Chat) -> Locator:
    return chat.answers.get_by_role("img", name=re.compile("^Diagram"))


async def are_drawn(images: Locator) -> bool:
    """Whether the browser can read each as an image."""
    return await images.evaluate_all(
        """async all => {
          await Promise.all(all.map(one => one.decode()));
          return all.every(one => one.naturalWidth > 40);
        }"""
    )


async def test_a_diagram_is_drawn_when_its_block_is_closed_and_a_broken_one_stays_its_source(
    visit: Visit,
) -> None:
    """In the colours of the theme; the source is one press away."""
    gate = Gate()
    whole = fenced(GOOD, SEQUENCE, BROKEN)
    async with visit.chatting([Say(whole[:40]), Wait(gate), Say(whole[40:])]) as server:
        chat = await visit(server.url, color_scheme="light")
        asked = requests_of(chat.page)
        await chat.say("draw")
        await expect(chat.answers.last).to_contain_text("flowchart LR")
        assert await pictures(chat).count() == 0
        assert not [url for url in asked if "diagram" in url]
        gate.open()
        await expect(pictures(chat)).to_have_count(2)
        assert await are_drawn(pictures(chat))
        await expect(chat.answers.last).to_contain_text("Mermaid · can't be drawn")
        await expect(chat.answers.last.get_by_role("group", name="Code, Mermaid")).to_contain_text("A -->")
        light = await pictures(chat).first.get_attribute("src") or ""
        await chat.page.emulate_media(color_scheme="dark")
        await expect(pictures(chat).first).not_to_have_attribute("src", light)
        await chat.button("Show source").first.click()
        await expect(chat.answers.last).to_contain_text("A[Order] --> B{Paid?}")
        await chat.button("Show diagram").click()
        await expect(pictures(chat)).to_have_count(2)
        frame = chat.page.locator("iframe")
        assert await frame.get_attribute("sandbox") == "allow-scripts"
        inside = chat.page.frames[-1]
        assert await inside.evaluate("origin") == "null"
        visit.expected = "Content Security Policy"
        assert await inside.evaluate("fetch('/health').then(() => 'in', () => 'out')") == "out"


async def test_a_hostile_diagram_runs_nothing_fetches_nothing_and_links_nowhere(visit: Visit) -> None:
    """P11: and changes not how diagrams are drawn, so that their text is always readable.

    Not by a directive, and not in its front matter.
    """
    settings = '{"theme": "dark", "themeVariables": {"primaryTextColor": "#fff"}, "look": "handDrawn", '
    settings += '"fontSize": 90, "securityLevel": "loose", "flowchart": {"nodeSpacing": 900}}'
    front = f"---\nconfig: {settings}\n---\n{GOOD}"
    same = (GOOD, f"%%{{init: {settings}}}%%\n{GOOD}", f"%%{{initialize: {settings}}}%%\n{GOOD}", front)
    async with visit.chatting([Say(fenced(*HOSTILE, GOOD))], [Say(fenced(*same))]) as server:
        chat = await visit(server.url)
        sent: list[str] = []
        dialogs: list[str] = []

        async def note(route: Route) -> None:
            sent.append(route.request.url)
            await route.abort()

        # what the policy blocks is never sent, so it doesn't come by here
        await chat.page.route(re.compile("evil"), note)
        chat.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        visit.expected = "Content Security Policy"
        await chat.say("draw")
        figures = chat.answers.last.locator("figure")
        await expect(figures).to_have_count(len(HOSTILE) + 1)
        for nth in range(len(HOSTILE) + 1):  # each is drawn in the end, or said not to be
            await expect(
                figures.nth(nth).get_by_role("img").or_(figures.nth(nth).get_by_text("can't be drawn"))
            ).to_be_visible()
        await expect(figures.last.get_by_role("img")).to_be_visible()
        for image in await pictures(chat).all():
            await image.click()
        assert await chat.page.evaluate("window.hacked ?? 'no'") == "no"
        assert (sent, dialogs) == ([], [])
        assert await chat.answers.last.locator("a, figure script").count() == 0
        await chat.is_over()
        await chat.button("New chat").click()
        await chat.say("draw the same")
        await expect(pictures(chat)).to_have_count(len(same))
        drawn = await pictures(chat).evaluate_all("all => all.map(one => one.src)")
        assert len({re.sub(r"diagram-\d+", "", one) for one in drawn}) == 1


async def test_a_diagram_that_is_too_large_or_takes_too_long_stays_its_source(visit: Visit) -> None:
    """P3: the frame that hangs is thrown away, and the next diagram is drawn in a new one."""
    edges = "\n".join(f"  n{n} --> n{n + 1}" for n in range(400))
    long = f"flowchart LR\n  A[{'x' * 20_000}]"
    answers = (fenced(f"flowchart LR\n{edges}", long), fenced(SEQUENCE), fenced(GOOD))
    async with visit.chatting(*([Say(one)] for one in answers)) as server:
        chat = await visit(server.url)
        await chat.say("large ones")
        await expect(chat.answers.last.get_by_text("can't be drawn")).to_have_count(2)
        chat = await visit(server.url)
        await chat.page.clock.install()
        await chat.page.route(
            "**/assets/diagram-*.js",
            lambda route: route.fulfill(body="for (;;) break;", content_type="text/javascript"),
        )
        await chat.say("one that hangs")
        await expect(chat.page.locator("iframe")).to_have_count(1)
        await expect(chat.answers.last.get_by_role("group", name="Code, Mermaid")).to_be_visible()
        await chat.page.clock.fast_forward(60_000)
        await expect(chat.answers.last).to_contain_text("can't be drawn")
        await expect(chat.page.locator("iframe")).to_have_count(0)
        await chat.page.unroute("**/assets/diagram-*.js")
        await chat.say("a good one")
        await expect(pictures(chat)).to_have_count(1)
