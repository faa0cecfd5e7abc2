"""A person at the page: what they do and see, by the names that a screen reader would say."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    Response,
    Route,
    expect,
)

from holdfast.chaos import ChaosServer, Gate, Script
from holdfast.server.page import BUILT, read_page
from holdfast.targets import Patience
from serving import Served, Setting, served, target_of

# Long, since a loaded machine is slow; a test that passes never waits for it.
expect.set_options(timeout=30_000)

# A gate holds an answer as long as the browser needs to show what is before it, however busy the machine is.
UNHURRIED = Patience(first_event_s=600, gap_s=600)
DESK = {"width": 1200, "height": 800}
OFFLINE = re.compile(
    r"ERR_(CONNECTION|INTERNET|NETWORK|INCOMPLETE|ABORTED|EMPTY|FILE|UPLOAD)|status of (4|503)"
)


@dataclass(slots=True)
class Chat:
    """One tab."""

    page: Page

    async def say(self, text: str) -> None:
        await self.box.fill(text)
        await self.box.press("Enter")

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def answers(self) -> Locator:
        return self.page.get_by_role("article", name="Assistant")

    @property
    def people(self) -> Locator:
        return self.page.get_by_role("article", name="You")

    @property
    def talk(self) -> Locator:
        return self.page.get_by_role("region", name="Conversation")

    @property
    def rows(self) -> Locator:
        """The chats of the list."""
        return self.page.get_by_role("navigation", name="Chats").get_by_role("listitem")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    async def answered(self, text: str) -> None:
        """The last answer reads so, whole."""
        await expect(self.answers.last).to_have_text(text)

    async def is_over(self) -> None:
        """The run that has answered is at its end, so that the next message begins another one."""
        await expect(self.button("Stop")).to_have_count(0)

    async def sees(self, text: str | re.Pattern[str]) -> None:
        await expect(self.page.get_by_text(text).first).to_be_visible()

    async def state(self, words: str) -> None:
        """What the place for the connection says."""
        await expect(self.page.locator(".connection")).to_contain_text(words)

    async def mark(self) -> None:
        """Something that a reload would take away."""
        await self.page.evaluate("window.wasHere = true")

    async def was_not_reloaded(self) -> bool:
        return await self.page.evaluate("window.wasHere === true")


@dataclass(slots=True)
class Visit:
    """The pages of one test; each context is a browser of its own, with its own cookies and storage."""

    browser: Browser
    stack: AsyncExitStack
    errors: list[str] = field(default_factory=list[str])
    expected: str = ""  # words of errors that the test is about: they may come as late as they like

    async def context(self, **how: Any) -> BrowserContext:
        options: dict[str, Any] = {"viewport": DESK, "reduced_motion": "reduce", **how}
        made = await self.browser.new_context(**options)
        self.stack.push_async_callback(made.close)
        return made

    async def __call__(self, url: str, context: BrowserContext | None = None, **how: Any) -> Chat:
        """A tab with this address."""
        made = context or await self.context(**how)
        page = await made.new_page()
        page.on("console", lambda message: self._heard(message))  # noqa: PLW0108  # it marks methods
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        await page.goto(url)
        return Chat(page)

    @asynccontextmanager
    async def chatting(
        self, *scripts: Script, setting: Setting | None = None, models: Sequence[str] = ("m",)
    ) -> AsyncGenerator["Chatting"]:
        """A server with the page, which ends once nobody looks at it any more."""
        async with chatting(*scripts, setting=setting, models=models) as server:
            try:
                yield server
            finally:
                await self.leave(server.url)

    async def leave(self, url: str) -> None:
        """Close the pages of this server; one that is just connecting while it ends would log an error."""
        for context in self.browser.contexts:
            if any(page.url.startswith(url) for page in context.pages):
                await context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        # A line that breaks is what some tests are about, and a browser says so by itself.
        is_expected = self.expected != "" and self.expected in message.text
        if message.type == "error" and not is_expected and not OFFLINE.search(message.text):
            self.errors.append(message.text)


def requests_of(page: Page) -> list[str]:
    """The addresses that the page asks for from now on."""
    asked: list[str] = []

    def ask(request: Request) -> None:
        asked.append(request.url)

    page.on("request", ask)
    return asked


async def hold(page: Page, address: str) -> Gate:
    """Whatever the page asks for there waits at this gate."""
    gate = Gate()

    async def wait(route: Route) -> None:
        await gate.passed()
        await route.continue_()

    await page.route(address, wait)
    return gate


def is_draft(text: str) -> Callable[[Response], bool]:
    """Whether a response says that this draft is saved: others may still come."""
    return lambda answer: answer.url.endswith("/draft") and answer.request.post_data_json == {"text": text}


async def _stop_time(page: Page) -> None:
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 1"))


@asynccontextmanager
async def moment(page: Page) -> AsyncGenerator[None]:
    """Time stands still in the page, so that what it shows for a moment is there however late one looks."""
    await page.clock.install()
    try:
        await _stop_time(page)
    except Error:  # its time went past that meanwhile; now it stands still
        await _stop_time(page)
    yield
    await page.clock.resume()


@dataclass(frozen=True, slots=True)
class Chatting:
    """A server with the page, and the model behind it."""

    url: str
    chaos: ChaosServer
    served: Served


@asynccontextmanager
async def chatting(
    *scripts: Script, setting: Setting | None = None, models: Sequence[str] = ("m",)
) -> AsyncGenerator[Chatting]:
    """A server with the page, open to everyone on this machine; its models answer by the scripts."""
    setting = setting or Setting()
    page = await asyncio.to_thread(read_page, BUILT)
    setting = replace(setting, options=replace(setting.options, page=page))
    async with ChaosServer(*scripts) as chaos:
        targets = [
            msgspec.structs.replace(target_of(chaos, name=name, patience=UNHURRIED), model=model)
            for name, model in zip(("main", "second", "third"), models, strict=False)
        ]
        async with served(*targets, setting=setting) as server:
            yield Chatting(server.url, chaos, server)


AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


async def faults_of(page: Page, *rules: str) -> list[str]:
    """What axe finds that keeps someone out: serious and critical faults, each with its place.

    All its rules, or these.
    """
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(await asyncio.to_thread(AXE.read_text))
    how = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = await page.evaluate("how => axe.run(document, how)", how)
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
        if one["impact"] in {"serious", "critical"}
    ]
