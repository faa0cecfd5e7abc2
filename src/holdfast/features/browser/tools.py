"""The tools of the browser: open a page, look at it, act on it, and send a form."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from typing_extensions import override

from holdfast.features.browser.browsers import Browsers, BrowserUnavailable, HeldForm, RunBrowser
from holdfast.interfaces.feature import ToolsContext
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.policy.host_rules import plain_name
from holdfast.policy.tool_names import BROWSER_ACT, BROWSER_LOOK, BROWSER_OPEN, BROWSER_SUBMIT
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.values import Action

_TARGET = "An element's ref in the snapshot, such as e12."


class OpenArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page to open."""

    url: Annotated[str, Meta(min_length=1, max_length=8_000)]
    only_allow: Annotated[
        bool, Meta(description="Don't open it: only let pages load from its host, such as a CDN's.")
    ] = False


class LookArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view of the page."""

    what: Literal["snapshot", "screenshot", "console"] = "snapshot"
    target: Annotated[str, Meta(description=_TARGET, max_length=1_000)] = ""


class ActArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action on the page."""

    action: Literal["click", "type", "select", "press", "hover", "back", "wait", "accept", "dismiss", "tab"]
    target: Annotated[str, Meta(description=f"{_TARGET} For a tab: its number.", max_length=1_000)] = ""
    text: Annotated[
        str, Meta(description="The text to type or wait for, the option or the key.", max_length=100_000)
    ] = ""


class SubmitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A form that was held back, exactly as it was shown."""

    to: Annotated[str, Meta(min_length=1, max_length=8_000)]
    method: Annotated[str, Meta(max_length=10)]
    fields: Annotated[tuple[str, ...], Meta(max_length=500)]


def _acting(given: ActArgs) -> tuple[str, dict[str, object]]:
    """The server's tool, and its arguments."""
    target: dict[str, object] = {"target": given.target}
    match given.action:
        case "type":
            return "browser_type", {**target, "text": given.text}
        case "select":
            return "browser_select_option", {**target, "values": [given.text]}
        case "press":
            return "browser_press_key", {"key": given.text}
        case "back":
            return "browser_navigate_back", {}
        case "wait":
            return "browser_wait_for", {"text": given.text} if given.text else {"time": 1}
        case "accept" | "dismiss":
            return "browser_handle_dialog", {"accept": given.action == "accept"}
        case "tab":
            return "browser_tabs", {"action": "select", "index": int(given.target or 0)}
        case "click" | "hover":
            return f"browser_{given.action}", target


class _BrowserTool(Tool):
    spec: ToolSpec
    traits = ToolTraits(patience_s=240.0)

    def __init__(self, browsers: Browsers) -> None:
        self._browsers = browsers

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        url = str(args.get("url") or args.get("to") or "")
        return Action(
            tool=self.spec.name,
            summary=self.summary(args),
            host=host_of(url),
            digest=arguments_hash(self.spec.name, args),
        )

    def summary(self, args: Mapping[str, object]) -> str:
        """The call in one line."""
        words = [str(value) for value in args.values() if value]
        return " ".join([self.spec.name.replace("_", " "), *words])

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        try:
            browser = await self._browsers.of(call.run_id)
        except BrowserUnavailable as error:
            return ToolResult(f"The browser isn't available: {error}.", ok=False, ending="not_started")
        return await self.use(browser, args, call)

    @abstractmethod
    async def use(self, browser: RunBrowser, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        """Do it in the run's browser."""
        ...


class OpenPage(_BrowserTool):
    """Opens a page of an approved host."""

    args_type = OpenArgs
    spec = spec_of(
        BROWSER_OPEN,
        "Open a web page in this run's browser. Pages load only from hosts that were opened or allowed.",
        args=OpenArgs,
    )

    @override
    def summary(self, args: Mapping[str, object]) -> str:
        given = parsed(OpenArgs, args)
        return f"let pages load from {host_of(given.url)}" if given.only_allow else f"open {given.url}"

    @override
    async def use(self, browser: RunBrowser, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(OpenArgs, args)
        host = host_of(given.url)
        if not host:
            return ToolResult(f"{given.url} isn't a URL that begins with http:// or https://.", ok=False)
        browser.hosts.approved.add(plain_name(host))
        if given.only_allow:
            return ToolResult(f"Pages can now load from {host}. Reload the page that needs it.")
        result = await browser.call("browser_navigate", {"url": given.url}, call)
        return await _with_notes(await _with_snapshot(result, browser, call), browser, call)


class LookAtPage(_BrowserTool):
    """Shows the page."""

    args_type = LookArgs
    spec = spec_of(BROWSER_LOOK, "See the browser's page: its elements, or as an image.", args=LookArgs)

    @override
    async def use(self, browser: RunBrowser, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(LookArgs, args)
        target = {"target": given.target} if given.target else {}
        match given.what:
            case "console":
                return await browser.call("browser_console_messages", {"level": "info"}, call)
            case "screenshot":
                result = await browser.call("browser_take_screenshot", {"type": "png", **target}, call)
                return replace(result, text="A screenshot of the page.") if result.parts else result
            case "snapshot":
                return await browser.call("browser_snapshot", target, call)


class ActOnPage(_BrowserTool):
    """Clicks, types and waits."""

    args_type = ActArgs
    spec = spec_of(
        BROWSER_ACT,
        "Act on the browser's page. A form isn't sent: you get its fields, for browser_submit.",
        args=ActArgs,
    )

    @override
    async def use(self, browser: RunBrowser, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ActArgs, args)
        if given.action == "tab" and not given.target.isdecimal():
            return ToolResult("Name the tab by its number in target.", ok=False)
        tool, arguments = _acting(given)
        result = await browser.call(tool, arguments, call)
        if given.action == "dismiss" and not result.ok:  # not a dialog: it can be a choice of files
            result = await browser.call("browser_file_upload", {}, call)
        if given.action in {"type", "hover"} and result.ok:
            result = replace(result, text="Done.")
        else:
            result = await _with_snapshot(result, browser, call)
        return await _with_notes(result, browser, call)


class SubmitForm(_BrowserTool):
    """Sends a form, once a person has seen it."""

    args_type = SubmitArgs
    spec = spec_of(
        BROWSER_SUBMIT, "Send a form that browser_act held back. Repeat it exactly.", args=SubmitArgs
    )
    _REASONS: ClassVar = {
        "changed": "the page has changed the form since",
        "invalid": "the page says that a field is invalid",
    }

    @override
    def summary(self, args: Mapping[str, object]) -> str:
        given = parsed(SubmitArgs, args)
        return f"send a form to {given.to} ({given.method}): {'; '.join(given.fields) or 'no fields'}"

    @override
    async def use(self, browser: RunBrowser, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(SubmitArgs, args)
        forms = await browser.look_for_forms(call)
        form = next((each for each in forms if _shown(each) == given), None)
        if form is None:
            waiting = "\n".join(map(_described, forms)) or "No form waits to be sent."
            return ToolResult(f"Nothing was sent: no such form waits.\n{waiting}", ok=False)
        if host := host_of(given.to):
            browser.hosts.approved.add(plain_name(host))
        if (outcome := await browser.send(form, call)) != "sent":
            why = self._REASONS.get(outcome, "the page didn't let it")
            return ToolResult(f"The form wasn't sent: {why}. Send it again.", ok=False)
        result = await browser.call("browser_snapshot", {}, call)
        return await _with_notes(replace(result, text=f"The form was sent.\n{result.text}"), browser, call)


def host_of(url: str) -> str:
    """The host of a web page; empty if the URL has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.hostname or "" if parts.scheme in {"http", "https"} else ""


def _shown(form: HeldForm) -> SubmitArgs:
    return SubmitArgs(form.to, form.method, form.fields)


def _described(form: HeldForm) -> str:
    given = msgspec.json.encode(_shown(form)).decode()
    return f"The page wants to send a form. It wasn't sent. To send it, call {BROWSER_SUBMIT} with {given}"


async def _with_snapshot(result: ToolResult, browser: RunBrowser, call: ToolCall) -> ToolResult:
    """The page after the call; the result itself if there's no page to see, as below a dialog."""
    snapshot = await browser.call("browser_snapshot", {}, call) if result.ok else result
    return snapshot if snapshot.ok else result


async def _with_notes(result: ToolResult, browser: RunBrowser, call: ToolCall) -> ToolResult:
    """The result, with the forms that were held back and the hosts that were blocked."""
    notes = [_described(form) for form in await browser.look_for_forms(call)]
    if blocked := browser.hosts.take_blocked():
        notes.append(
            f"Blocked, because these hosts weren't approved: {', '.join(blocked)}. "
            f"If the page needs one, call {BROWSER_OPEN} with it."
        )
    return replace(result, text="\n\n".join([result.text, *notes])) if notes else result


class BrowserTools:
    """The tools of every session, and the browsers behind them."""

    def __init__(self, browsers: Browsers) -> None:
        self.close = browsers.close
        tools = (OpenPage, LookAtPage, ActOnPage, SubmitForm)
        self._tools: tuple[Tool, ...] = tuple(tool(browsers) for tool in tools)

    def __call__(self, session_id: str) -> Sequence[Tool]:  # noqa: ARG002 - every session has them
        """Return the tools."""
        return self._tools


@asynccontextmanager
async def open_browsers(context: ToolsContext) -> AsyncGenerator[BrowserTools]:
    """Offer the tools; leaving ends every browser."""
    browsers = Browsers(context)
    await asyncio.to_thread(browsers.delete_leftovers)
    try:
        yield BrowserTools(browsers)
    finally:
        await browsers.close_all()
