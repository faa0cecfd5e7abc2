"""The MCP servers that an editor passes on: the server has them for the session while it is open here."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TypeAlias

from acp import RequestError
from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from holdfast.api.sessions import BringServersRequest, BroughtServer, BroughtServersShown
from holdfast.client.client import Client
from holdfast.client.errors import ClientError, Refused

GivenServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
RENEWALS = 3  # while what was brought lasts
AGAIN_S = 2.0


def brought_server(given: GivenServer) -> BroughtServer:
    """A server as Holdfast's own server takes it; raises RequestError for a kind that it can't connect."""
    match given:
        case McpServerStdio():
            env = {one.name: one.value for one in given.env or ()}
            return BroughtServer(name=given.name, command=[given.command, *(given.args or ())], env=env)
        case HttpMcpServer() | SseMcpServer():
            headers = {one.name: one.value for one in given.headers or ()}
            transport = "sse" if isinstance(given, SseMcpServer) else "http"
            return BroughtServer(name=given.name, url=str(given.url), headers=headers, transport=transport)
        case AcpMcpServer():
            text = f"{given.name}: MCP servers inside the editor can't be used; pass a command or a URL."
            raise RequestError.invalid_params({"details": text})


class EditorServers:
    """Brings an editor's servers for one session, and renews them until it is closed."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._client_id = f"acp-{token_hex(8)}"
        self._wanted = BringServersRequest([])
        self._renewing: asyncio.Task[None] | None = None

    async def bring(self, given: Sequence[GivenServer], cwd: str) -> list[str]:
        """Connect them; what to tell the person, if some can't be. Raises RequestError."""
        if not given:
            return []
        self._wanted = BringServersRequest([brought_server(one) for one in given], cwd)
        try:
            found = await self._put(self._wanted)
        except Refused as error:
            text = f"The editor's MCP servers can't be used: {error}"
            raise RequestError.invalid_params({"details": text}) from error
        except ClientError as error:
            raise RequestError.internal_error({"details": str(error)}) from error
        self._renewing = asyncio.create_task(self._keep(found.renew_s / RENEWALS))
        return [
            f"[The MCP server {one.name} is {one.state}: {one.why or 'it has not answered yet'}]"
            for one in found.servers
            if one.state != "connected"
        ]

    async def _put(self, wanted: BringServersRequest) -> BroughtServersShown:
        return await self._client.bring_servers(self._session_id, self._client_id, wanted)

    async def renew(self) -> None:
        """Make sure of them before a run begins: a server that was restarted has forgotten them."""
        if self._renewing is not None:
            with suppress(ClientError):  # then the run can't begin either, and says why
                await self._put(self._wanted)

    async def _keep(self, every_s: float) -> None:
        pause_s = every_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._put(self._wanted)
                pause_s = every_s
            except ClientError:
                pause_s = AGAIN_S  # the server is being restarted

    async def close(self) -> None:
        """Let them end."""
        if self._renewing is None:
            return
        self._renewing.cancel()
        await asyncio.wait([self._renewing])
        with suppress(ClientError):  # they expire on their own then
            await self._put(BringServersRequest([]))
