"""The wire to a server of the older HTTP transport: it speaks on one event stream, and hears by POST."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.flow import Incoming, Outgoing
from holdfast.features.mcp_client.http import BoundedTransport, client_on, sockets
from holdfast.features.mcp_client.oauth import PersonAuth, TokenAuth


class _LegacyTransport(BoundedTransport):
    """The bounded transport; the SDK drops a message that could not be sent, so that ends the connection."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and give the connection up if that fails."""
        response = await super().handle_async_request(request)
        if response.is_error and not self.is_of_sign_in(request):
            self.lost(await self.said(response))
        return response


@asynccontextmanager
async def sse_wire(
    config: McpServerConfig, *, lost: Callable[[str], None], auth: TokenAuth | PersonAuth | None = None
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Talk to the server whose event stream is at its url; its other addresses must be of the same origin."""
    inner = await asyncio.to_thread(sockets, config.url)
    transport = _LegacyTransport(inner, config, lost=lost, auth=auth)

    def client(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return client_on(transport, config, auth=auth)

    async with sse_client(config.url, httpx_client_factory=client) as (incoming, outgoing):
        yield incoming, outgoing
