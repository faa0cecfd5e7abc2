"""The MCP servers of an editor, which Holdfast connects for a session while the editor has it open."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TypeAlias

import msgspec
from acp import RequestError
from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from holdfast.client.client import Client, in_path
from holdfast.client.errors import ClientError, Refused
from holdfast.client.exchange import ClientRequest
from holdfast.features.mcp_client.bodies import ClientServer, ClientServersRequest, ClientServersShown

GivenServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
RENEWALS = 3  # within a lease
AGAIN_S = 2.0


def _supplied(given: GivenServer) -> ClientServer:
    """Convert a server. Raises RequestError for a kind that Holdfast can't connect."""
    match given:
        case McpServerStdio():
            env = {one.name: one.value for one in given.env or ()}
            return ClientServer(name=given.name, command=[given.command, *(given.args or ())], env=env)
        case HttpMcpServer() | SseMcpServer():
            headers = {one.name: one.value for one in given.headers or ()}
            transport = "sse" if isinstance(given, SseMcpServer) else "http"
            return ClientServer(name=given.name, url=str(given.url), headers=headers, transport=transport)
        case AcpMcpServer():
            text = f"{given.name}: MCP servers inside the editor can't be used; pass a command or a URL."
            raise RequestError.invalid_params({"details": text})


class EditorServers:
    """Supplies an editor's servers to one session, and renews them until closed."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._client_id = f"acp-{token_hex(8)}"
        self._supplied = ClientServersRequest([])
        self._renewing: asyncio.Task[None] | None = None

    async def connect(self, given: Sequence[GivenServer], cwd: str) -> list[str]:
        """Connect servers, and return a notice for each that isn't connected. Raises RequestError."""
        if not given:
            return []
        self._supplied = ClientServersRequest([_supplied(one) for one in given], cwd)
        try:
            found = await self._put(self._supplied)
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

    async def _put(self, servers: ClientServersRequest) -> ClientServersShown:
        path = f"/api/sessions/{in_path(self._session_id)}/mcp-servers/{in_path(self._client_id)}"
        body: dict[str, object] = msgspec.to_builtins(servers)
        return await self._client.send(ClientRequest("PUT", path, body, token_hex(16)), ClientServersShown)

    async def renew(self) -> None:
        """Renew before a run begins: after a restart, the server no longer has them."""
        if self._renewing is not None:
            with suppress(ClientError):  # then the run can't begin either, and says why
                await self._put(self._supplied)

    async def _keep(self, every_s: float) -> None:
        pause_s = every_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._put(self._supplied)
                pause_s = every_s
            except ClientError:
                pause_s = AGAIN_S  # the server is being restarted

    async def close(self) -> None:
        """Disconnect the servers."""
        if self._renewing is None:
            return
        self._renewing.cancel()
        await asyncio.wait([self._renewing])
        with suppress(ClientError):  # they expire on their own then
            await self._put(ClientServersRequest([]))
