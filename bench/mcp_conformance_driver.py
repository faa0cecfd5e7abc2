"""The client under test of the MCP conformance kit: Holdfast's own MCP client, against the kit's server.

The kit starts it with the address of its server; `bench/mcp_conformance.py` starts the kit. The person in
front of the browser is played here: the sign-in page is fetched, and its redirect is what comes back.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from holdfast.config.fields import Secret
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.config.settings import McpOAuthSettings
from holdfast.features.mcp_client.process import McpPatience
from holdfast.features.mcp_client.server import ServerPlace
from holdfast.features.mcp_client.servers import McpServers
from holdfast.features.mcp_client.sign_in import read_redirect, sign_in
from holdfast.interfaces.tool import Tool, ToolResult
from holdfast.journal.memory import MemoryStore
from holdfast.redaction import NO_SECRETS

if TYPE_CHECKING:
    from holdfast.interfaces.journal import Blobs
    from holdfast.sandbox.confinement import Confinement

METADATA_URL = "https://conformance-test.local/client-metadata.json"
SIGN_INS_MAX = 3  # a server that always wants more is given up


class Browser:
    """A person who says yes to everything."""

    redirect_uri = "http://127.0.0.1:39999/callback"

    def __init__(self) -> None:
        self._location = ""

    async def show(self, url: str) -> None:
        """Open the page; it leads back at once."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            response = await client.get(url)
        self._location = response.headers["location"]

    async def came_back(self) -> AuthorizationCodeResult:
        """What the page sent along."""
        return read_redirect(self._location)


class DriverCall:
    """A call whose questions are answered with what is offered: skip what can be skipped."""

    def __init__(self, workspace: Path) -> None:
        self.session_id = "session"
        self.run_id = "run"
        self.tool_call_id = "call"
        self.effect_key = "key"
        self.api_key = ""
        self.approved = ""
        self.judged_paths: tuple[str, ...] = ()
        self.confinement: Confinement | None = None
        self.workspace = workspace
        self.blobs: Blobs = MemoryStore(NO_SECRETS)

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        """Show progress."""
        print(f"[{stream}] {text}", end="", file=sys.stderr)

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """Take the defaults, and the first choice where there is none."""
        print(f"[asked] {text} {choices}", file=sys.stderr)
        if "Skip" in choices:
            return "Skip"
        return "text" if choices == ("Decline",) else choices[0]


def config_for(url: str, context: dict[str, str]) -> McpServerConfig:
    """The server as the configuration would describe it."""
    oauth = McpOAuthSettings(
        client_id=context.get("client_id", ""),
        client_secret=Secret(context.get("client_secret", "")),
        client_metadata_url=METADATA_URL,
    )
    return McpServerConfig(name="kit", url=url, oauth=oauth, patience_s=20.0)


async def drive(url: str, folder: Path) -> int:
    """Connect, sign in if asked, and call every tool."""
    given = os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"  # noqa: TID251  # the kit says it so
    config = config_for(url, json.loads(given))
    place = ServerPlace(workspace=folder, sign_ins=folder / "sign-ins")
    patience = McpPatience(backoff_first_s=0.2)
    sign_ins = 0
    async with McpServers([config], environment={}, patience=patience, place=place) as servers:
        await servers.tried_once(within_s=20)
        if "mcp-sign-in" in servers.status()[0].why:
            sign_ins += 1
            await sign_in(config, place=place, person=Browser(), within_s=20)
        for _ in range(400):
            if servers.status()[0].state == "connected":
                break
            await asyncio.sleep(0.05)
        for tool in servers.snapshot():
            result = await called(tool, folder)
            while "mcp-sign-in" in result.text and sign_ins < SIGN_INS_MAX:
                sign_ins += 1
                await sign_in(config, place=place, person=Browser(), within_s=20)
                result = await called(tool, folder)
            print(f"{tool.spec.name}: {result.text}")
    return 0


async def called(tool: Tool, folder: Path) -> ToolResult:
    """One call with arguments that fit its schema."""
    properties = cast("dict[str, dict[str, Any]]", tool.spec.schema.get("properties") or {})
    samples: dict[str, object] = {"integer": 2, "number": 2, "string": "text", "boolean": True}
    args = {name: samples.get(str(one.get("type")), "text") for name, one in properties.items()}
    return await tool.run(args, DriverCall(folder))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.exit(asyncio.run(drive(sys.argv[1], Path(made))))
