"""Agents' browser: the real Playwright MCP server with a real Chromium, in the real sandbox."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from msgspec.structs import replace
from playwright._impl._driver import compute_driver_executable

from features.mcp_client.scene import McpCall
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.config.settings import BrowserSettings, ServerSettings, Settings
from holdfast.features.browser.browsers import EXECUTABLES
from holdfast.features.browser.doctor import check_browser
from holdfast.features.browser.tools import open_browsers
from holdfast.interfaces.feature import DoctorContext, ToolsContext
from holdfast.interfaces.system_clock import SystemClock
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval
from holdfast.sandbox.sandbox import Sandbox
from holdfast.values import Action, ApprovalMode
from sandbox.confined_world import HAS_BUBBLEWRAP, one_sandbox
from serving import Served, Setting, said_to, served, target_of
from stream_server import stream_server
from tables import for_each_row
from tools.calls import ENVIRONMENT

HAS_BROWSER = any(map(shutil.which, EXECUTABLES))
real = pytest.mark.skipif(not (HAS_BUBBLEWRAP and HAS_BROWSER), reason="needs bubblewrap and Chromium")
PAGE = """<!doctype html><title>Shop</title><h1>Tea</h1>
<form action="/buy" method="post">
  <input name="who"> <input name="pin" type="password"> <input name="token" type="hidden" value="t1">
  <button name="go" value="1">Buy</button>
</form>
<button id="script" onclick="document.forms[0].submit()">Buy by script</button>
<img src="http://images.example/tea.png">"""
AWAY = """<a href="http://elsewhere.example/?tea">Away</a>"""
FIELDS = ["who = Ada", "pin = (a password of 4 characters)", "token = t1"]


class Shop(Struct):
    """A web shop: what was asked of it."""

    posted: list[str] = field(default_factory=list[str])
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def form(self, *more: str) -> dict[str, Any]:
        return {"to": f"{self.url}buy", "method": "POST", "fields": [*FIELDS, *more]}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)content-length: (\d+)", head)
        body = (await reader.readexactly(int(length[1]) if length else 0)).decode()
        if head.startswith("POST"):
            self.posted.append(body)
        order = f"<h1>Order {len(self.posted)}</h1>{AWAY}"
        answer = (order if head.startswith("POST") else PAGE).encode()
        fields = f"Content-Type: text/html\r\nContent-Length: {len(answer)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + answer)
        await writer.drain()


def mcp_server(folder: Path) -> tuple[str, dict[str, str]]:
    """The MCP server that Playwright's own package contains, as a program, and its environment."""
    node, cli = compute_driver_executable()
    package = str(Path(cli).parent)
    program = folder / "bin" / "playwright-mcp"
    program.parent.mkdir()
    program.write_text(
        f"#!{node}\nconst {{ program }} = require('{package}/lib/utilsBundle');\n"
        f"require('{package}/lib/coreBundle').tools.decorateMCPCommand(program.version('1'), '1');\n"
        "void program.parseAsync(process.argv);\n"
    )
    program.chmod(0o755)
    path = f"{Path(node).parent}:{ENVIRONMENT['PATH']}"
    return str(program), {**ENVIRONMENT, "PATH": path}


@asynccontextmanager
async def browsing(folder: Path, shop: Shop, chaos: ChaosServer, **browser: Any) -> AsyncGenerator[Served]:
    command, environment = mcp_server(folder)
    settings = Settings(
        server=ServerSettings(data_dir=str(folder / "data")),
        browser=BrowserSettings(
            enabled=True,
            command=(command, "--timeout-settle=50"),
            hosts=(f"127.0.0.1:{shop.port}",),
            **browser,
        ),
    )
    context = ToolsContext(settings, SystemClock(), environment, (), one_sandbox)
    async with open_browsers(context) as tools:
        judge = ConfiguredJudge(home=folder)
        setting = Setting(session_tools={"browser": tools}, judge=judge, workspace=folder)
        async with served(target_of(chaos), setting=setting) as server:
            yield server


def processes_in(folder: Path) -> list[str]:
    """The command lines that name the folder."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it has ended
        if str(folder) in line:
            found.append(line)
    return found


async def approved(server: Served, run_id: str) -> tuple[list[str], list[str]]:
    """Approve whatever the run asks, until it ends; return the headlines, and the results of its tools."""
    asked: list[str] = []
    results: list[str] = []
    async for frame in server.frames(run_id):
        if frame.data["event"] == "tool.completed":
            results.append(frame.data["result"])
        if frame.data["event"] == "approval.request":
            asked.append(frame.data["headline"])
            body = {"choice": "once", "request_id": frame.data["request_id"]}
            status, answer = await server.post(f"/v1/runs/{run_id}/approval", body)
            assert status == 200, answer
    return asked, results


@asynccontextmanager
async def opened_shop() -> AsyncGenerator[Shop]:
    shop = Shop()
    async with stream_server(shop.serve) as shop.port:
        yield shop


@real
async def test_a_person_approves_hosts_and_forms_and_the_browser_dies_with_its_run(tmp_path: Path) -> None:
    """P8, P13, P5: nothing is loaded from a host, and no form is sent, that a person hasn't approved."""
    last = Gate()
    async with opened_shop() as shop:
        turns = [
            CallTool("browser_open", {"url": shop.url}),
            CallTool("browser_act", {"action": "type", "target": "[name=who]", "text": "Ada"}),
            CallTool("browser_act", {"action": "type", "target": "[name=pin]", "text": "1234"}),
            CallTool("browser_act", {"action": "click", "target": "#script"}),
            CallTool("browser_act", {"action": "click", "target": "[name=go]"}),
            CallTool("browser_submit", shop.form("go = 2")),
            CallTool("browser_submit", shop.form("go = 1")),
            CallTool("browser_act", {"action": "click", "target": "a"}),
            CallTool("browser_look", {"what": "screenshot"}),
        ]
        async with (
            ChaosServer(*([turn] for turn in turns), [Wait(last), Say("done")]) as chaos,
            browsing(tmp_path, shop, chaos) as server,
        ):
            run_id = await server.start("buy tea")
            asking = asyncio.create_task(approved(server, run_id))
            await last.reached()
            assert processes_in(tmp_path / "data" / "browser")
            assert "image/png;base64,iVBOR" in json.dumps(chaos.seen.requests[-1].body)
            last.open()
            headlines, results = await asking
            assert (await server.ended(run_id))["output"] == "done"
            assert processes_in(tmp_path) == []
            assert list((tmp_path / "data" / "browser").iterdir()) == []
    assert headlines == [
        "Opens a page from 127.0.0.1",
        "Sends a form to 127.0.0.1",
        "Sends a form to 127.0.0.1",
    ]
    assert shop.posted == ["who=Ada&pin=1234&token=t1&go=1"]
    page, who, pin, script, held, changed, sent, away, picture = results
    assert "images.example" in page.partition("Blocked")[2]
    assert (who, pin) == ("Done.", "Done.")
    assert '"token = t1"]' in script
    assert '"go = 1"]' in held
    assert "1234" not in held.partition("It wasn't sent")[2]
    assert changed.startswith("Nothing was sent")
    assert "Order 1" in sent
    assert "elsewhere.example" in away.partition("Blocked")[2]
    assert picture == "A screenshot of the page."


@real
async def test_a_stopped_run_has_no_browser_left_and_others_keep_theirs(tmp_path: Path) -> None:
    """P5, P10: and there are never more browsers than allowed."""
    first, second = Gate(), Gate()
    async with opened_shop() as shop:
        opens = CallTool("browser_open", {"url": shop.url})
        async with (
            ChaosServer([opens], [Wait(first), Say("one")], [opens], [Wait(second), Say("two")]) as chaos,
            browsing(tmp_path, shop, chaos, browsers_max=1) as server,
        ):
            run_id = await server.start("look")
            asking = asyncio.create_task(approved(server, run_id))
            await first.reached()
            other = await server.start("look, too")
            asking_too = asyncio.create_task(approved(server, other))
            await second.reached()
            assert "browsers_max" in said_to(chaos, nth=4)[-1]
            assert (await server.post(f"/v1/runs/{run_id}/stop"))[0] == 200
            await asking
            assert (await server.ended(run_id))["status"] == "cancelled"
            assert processes_in(tmp_path) == []
            second.open()
            await asking_too
            first.open()


async def test_without_its_programs_or_a_sandbox_there_is_no_browser(tmp_path: Path) -> None:
    """P13: the agent and the doctor say what to do."""
    missing = BrowserSettings(enabled=True, command=("no-such-program",))
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path)), browser=missing)
    (finding,) = await check_browser(DoctorContext(settings, tmp_path, SystemClock(), is_offline=True))
    assert (finding.state, "npm install" in finding.text) == ("fault", True)
    command, environment = mcp_server(tmp_path)
    there = replace(settings, browser=BrowserSettings(enabled=True, command=(command,), executable=command))
    context = ToolsContext(there, SystemClock(), environment, (), Sandbox)
    async with open_browsers(context) as tools:
        result = await tools("s")[0].run({"url": "http://127.0.0.1/"}, McpCall(workspace=tmp_path))
    assert not result.ok
    assert "only in a sandbox made by bubblewrap" in result.text


ROWS: list[tuple[str, str, str]] = [
    ("ask", "browser_open", "NeedsApproval"),
    ("ask", "browser_act", "Allow"),
    ("ask", "browser_submit", "NeedsApproval"),
    ("workspace", "browser_open", "NeedsApproval"),
    ("workspace", "browser_submit", "NeedsApproval"),
    ("plan", "browser_look", "Allow"),
    ("plan", "browser_act", "Deny"),
    ("plan", "browser_submit", "Deny"),
    ("unattended", "browser_act", "Allow"),
    ("unattended", "browser_submit", "Deny"),
]


@for_each_row("mode, tool, verdict", ROWS)
def test_what_needs_an_approval_in_each_mode(mode: ApprovalMode, tool: str, verdict: str) -> None:
    """P8: a form can be allowed once, or by a rule of the configuration, but by no other answer."""
    judge = ConfiguredJudge(home=Path("/nowhere"), mode=mode)
    action = Action(tool=tool, summary="x", host="shop.example")
    found = judge.verdict(action, [], workspace=Path("/work"))
    assert type(found).__name__ == verdict
    if isinstance(found, NeedsApproval):
        assert bool(found.offers) == (tool == "browser_open")
    rule = ApprovalRule("allow", tool, host="shop.example")
    allowed = ConfiguredJudge(home=Path("/nowhere"), mode="unattended", rules=(rule,))
    assert isinstance(allowed.verdict(action, [], workspace=Path("/work")), Allow)
    other = replace(action, host="evil.example")
    assert tool in {"browser_act", "browser_look"} or isinstance(
        allowed.verdict(other, [], workspace=Path("/work")), Deny
    )
