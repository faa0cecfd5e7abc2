"""The browsers of runs: one sandboxed Playwright MCP server for each run, until the run ends."""

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Struct, field
from typing_extensions import override

from holdfast.cli.doctor.findings import counted
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.config.settings import BrowserSettings
from holdfast.features.mcp_client.process import McpPatience
from holdfast.features.mcp_client.server import McpServer, ServerPlace
from holdfast.features.mcp_client.tool import McpTool
from holdfast.interfaces.feature import ToolsContext
from holdfast.interfaces.tool import ToolCall, ToolResult
from holdfast.messages import ToolSpec
from holdfast.policy.host_rules import HostRules, host_rules, plain_name
from holdfast.sandbox.confinement import Confinement
from holdfast.sandbox.network_proxy import PORT, read_inside
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.system_files import toolchains
from holdfast.supervision import BackgroundTasks
from holdfast.tools.offload import offload

EXECUTABLES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BLOCKED_MAX = 20
CALL_S = 100.0
# Chromium's own requests are blocked, too, but are no news.
_OF_CHROMIUM = frozenset(
    f"{name}.googleapis.com"
    for name in (
        "content-autofill",
        "optimizationguide-pa",
        "passwordsleakcheck-pa",
        "safebrowsing",
        "update",
    )
)
_HOME = "/tmp/home"  # noqa: S108 - in the sandbox
_PATIENCE = McpPatience(wait_s=30.0)
_RESULT = "### Result\n"
_TAKE = """async (page) => {
  const held = [];
  for (const [frame, each] of page.frames().entries()) {
    const form = await each.evaluate(() => window.holdfastForms?.take() ?? null).catch(() => null);
    if (form) held.push({ frame, ...form });
  }
  return held;
}"""
_SEND = """async (page) => {
  const { frame, id, form } = %s;
  const its = page.frames()[frame];
  if (!its) return "changed";
  return its.evaluate(([id, form]) => window.holdfastForms.send(id, form), [id, form]).catch(() => "sent");
}"""


class BrowserUnavailable(Exception):
    """No browser can be started; the text says why, and what to do."""


class ReachedHosts(HostRules, frozen=True):
    """The hosts that pages can load from: configured ones, and those approved in this run."""

    approved: set[str] = field(default_factory=set[str])
    blocked: dict[str, None] = field(default_factory=dict[str, None])

    @override
    def allows(self, host: str, port: int) -> bool:
        if super().allows(host, port) or plain_name(host) in self.approved:
            return True
        if len(self.blocked) < BLOCKED_MAX:
            self.blocked[plain_name(host)] = None
        return False

    def take_blocked(self) -> list[str]:
        """Return the hosts that were blocked since the last call."""
        blocked = sorted(set(self.blocked) - self.approved - _OF_CHROMIUM)
        self.blocked.clear()
        return blocked


class HeldForm(Struct, frozen=True):
    """A form that a page wanted to send."""

    frame: int
    id: str
    to: str
    method: str
    fields: tuple[str, ...]


class Program(Struct, frozen=True):
    """The programs behind a browser, found on this machine."""

    command: tuple[str, ...]
    executable: str
    read: tuple[str, ...]  # folders that they need


def find_program(settings: BrowserSettings, environment: Mapping[str, str]) -> Program:
    """Find the MCP server and the browser. Raises BrowserUnavailable. Looks at files, so it blocks."""
    path = environment.get("PATH", os.defpath)
    if (server := shutil.which(settings.command[0], path=path)) is None:
        advice = "install it with `npm install -g @playwright/mcp`, or set `command` under [browser]"
        raise BrowserUnavailable(f"{settings.command[0]} isn't installed: {advice}")
    wanted = [settings.executable] if settings.executable else EXECUTABLES
    browser = next((found for name in wanted if (found := shutil.which(name, path=path))), None)
    if browser is None:
        named = settings.executable or "Chromium or Chrome"
        raise BrowserUnavailable(f"{named} isn't installed: install it, or set `executable` under [browser]")
    real_server, real_browser = os.path.realpath(server), os.path.realpath(browser)
    package, found, _ = real_server.partition("/node_modules/")
    read = [
        *toolchains(os.path.realpath(Path.home()), environment),
        f"{package}/node_modules" if found else os.path.dirname(real_server),  # noqa: PTH120
        os.path.dirname(real_browser),  # noqa: PTH120
        *(folder for folder in ("/etc/chromium", "/etc/chromium.d") if os.path.isdir(folder)),  # noqa: PTH112
        *read_inside(),
    ]
    return Program((real_server, *settings.command[1:]), real_browser, tuple(dict.fromkeys(read)))


class RunBrowser:
    """The browser of one run; its own task keeps its server until `close`."""

    def __init__(self, run_id: str, folder: Path, hosts: ReachedHosts) -> None:
        self.hosts = hosts
        self._run_id = run_id
        self._folder = folder
        self._background = BackgroundTasks()
        self._server: McpServer | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, context: ToolsContext) -> None:
        """Make its folder, and start the server. Raises BrowserUnavailable."""
        program = await offload(lambda: find_program(context.settings.browser, context.environment))
        sandbox = await offload(context.sandbox)
        if sandbox.backend != "bubblewrap":
            why = sandbox.why or "the sandbox is turned off"
            raise BrowserUnavailable(f"a browser runs only in a sandbox made by bubblewrap ({why})")
        await offload(self._make_folder)
        profile = Profile(
            workspace="",
            cwd=str(self._folder),
            home=_HOME,
            write=(str(self._folder),),
            read=program.read,
            network="hosts",
        )
        self._server = McpServer(
            McpServerConfig(name="browser", command=self._command(program), patience_s=CALL_S),
            environment=context.environment,
            patience=_PATIENCE,
            marker_run=self._run_id,  # so a restarted Holdfast finds what a crashed one left behind
            confined=lambda: Confinement(sandbox, profile),
            place=ServerPlace(self._folder, rules=self.hosts),
        )
        self._task = self._background.start(f"browser of {self._run_id}", self._server.live)

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True)
        guard = files(__package__).joinpath("guard.js").read_bytes()
        (self._folder / "guard.js").write_bytes(guard)

    def _command(self, program: Program) -> tuple[str, ...]:
        folder = str(self._folder)
        options = {
            "--browser": "chromium",
            "--executable-path": program.executable,
            "--user-data-dir": f"{folder}/profile",
            "--output-dir": f"{folder}/output",
            "--init-script": f"{folder}/guard.js",
            "--proxy-server": f"http://127.0.0.1:{PORT}",
            "--proxy-bypass": "<-loopback>",  # otherwise the sandbox's own loopback
            "--codegen": "none",
            "--snapshot-mode": "none",  # otherwise it's written to a file
            "--viewport-size": "1280x800",
        }
        flags = ("--headless", "--block-service-workers", "--no-webmcp")
        # The sandbox around it refuses the namespaces of Chromium's own sandbox.
        words = [word for pair in options.items() for word in pair]
        return (*program.command, *flags, "--no-sandbox", *words)

    async def close(self) -> None:
        """End its processes, and delete its folder."""
        if self._server is not None and self._task is not None:
            self._server.closing = True
            await self._background.end(self._task)
        await offload(lambda: shutil.rmtree(self._folder, ignore_errors=True))

    async def call(self, tool: str, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        """Call a tool of the server."""
        assert self._server is not None, "it is open"
        return await McpTool(self._server, tool, spec=ToolSpec(tool, "", {})).run(args, call)

    async def look_for_forms(self, call: ToolCall) -> list[HeldForm]:
        """Return the forms that pages wanted to send and couldn't."""
        found = await self._evaluated(_TAKE, call)
        try:
            return msgspec.convert(found, list[HeldForm])
        except msgspec.ValidationError:
            return []  # a page can put anything in the place of our functions

    async def send(self, form: HeldForm, call: ToolCall) -> str:
        """Send the form: "sent", or "changed" or "invalid" if it wasn't sent."""
        expected = {"id": form.id, "to": form.to, "method": form.method, "fields": form.fields}
        given = json.dumps({"frame": form.frame, "id": form.id, "form": expected})
        return str(await self._evaluated(_SEND % given, call))

    async def _evaluated(self, code: str, call: ToolCall) -> Any:
        result = await self.call("browser_run_code_unsafe", {"code": code}, call)
        _, found, rest = result.text.partition(_RESULT)
        if not result.ok or not found:
            return None  # for example, a dialog is open
        try:
            return json.JSONDecoder().raw_decode(rest)[0]
        except ValueError:
            return None


class Browsers:
    """All browsers of this server, by run."""

    def __init__(self, context: ToolsContext) -> None:
        self._context = context
        self._folder = context.settings.data_dir.absolute() / "browser"
        self._open: dict[str, RunBrowser] = {}

    async def of(self, run_id: str) -> RunBrowser:
        """Return the run's browser; open it if needed. Raises BrowserUnavailable.

        A run makes one call at a time, so none finds a browser that is being opened.
        """
        if (browser := self._open.get(run_id)) is not None:
            return browser
        settings = self._context.settings.browser
        if len(self._open) >= settings.browsers_max:
            raise BrowserUnavailable(
                f"{counted(len(self._open), 'run')} use a browser now, and [browser] browsers_max allows no "
                "more. Try again later."
            )
        configured = host_rules(settings.hosts)
        hosts = ReachedHosts(configured.names, configured.networks)
        browser = self._open[run_id] = RunBrowser(run_id, self._folder / token_hex(8), hosts)
        try:
            await browser.open(self._context)
        except BaseException:
            await self.close(run_id)
            raise
        return browser

    async def close(self, run_id: str) -> None:
        """Close the run's browser, if it has one."""
        if (browser := self._open.pop(run_id, None)) is not None:
            await browser.close()

    async def close_all(self) -> None:
        """Close all browsers."""
        await asyncio.gather(*map(self.close, list(self._open)))

    def delete_leftovers(self) -> None:
        """Delete the folders that an earlier Holdfast left. Blocks."""
        shutil.rmtree(self._folder, ignore_errors=True)
