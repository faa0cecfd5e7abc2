"""The tools of all configured MCP servers: one task owns each server, and one object owns all tasks."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Self

from msgspec.structs import replace

from holdfast.config.mcp_servers import BadMcpServer, McpServerConfig
from holdfast.features.mcp_client.process import McpPatience, ServerConfiner
from holdfast.features.mcp_client.server import McpServer, McpStatus, ServerPlace
from holdfast.features.mcp_client.tool import McpTool
from holdfast.features.mcp_client.tool_specs import ToolLeftOut, plain, spec_for
from holdfast.interfaces.tool import Tool
from holdfast.policy.tool_names import mcp_labels, mcp_tool_names
from holdfast.sandbox.confinement import Confinement
from holdfast.supervision import BackgroundTasks
from holdfast.tools.offload import join

_log = logging.getLogger(__name__)

CLOSE_S = 20.0
DECLARED_BYTES_MAX = 8_000  # of all servers, in equal parts; the tools of a server with more are on demand


class McpServers:
    """All servers, connected in the background while entered; raises BadMcpServer for a duplicate name.

    - Entering does not wait. Leaving ends every task and every process, even those that ignore TERM.
    - Children get `environment` (which the edge made without our keys) and what their configuration adds.
    - `owner` names the data directory: what a killed Holdfast of the same owner left running is killed first.
    """

    def __init__(
        self,
        configs: Sequence[McpServerConfig],
        *,
        environment: Mapping[str, str],
        patience: McpPatience | None = None,
        owner: str = "",
        confiner: ServerConfiner | None = None,
        place: ServerPlace | None = None,
    ) -> None:
        names = [config.name for config in configs]
        if len(set(names)) < len(names):
            raise BadMcpServer(f"Two MCP servers have the same name: {', '.join(names)}.")
        self._environment = environment
        self._patience = patience or McpPatience()
        self._configs = tuple(configs)
        self._confiner = confiner
        self._place = place or ServerPlace()
        # Without its own name, it mustn't mistake others' servers for its leftovers.
        self._owner = owner or token_hex(8)
        self._labels = mcp_labels(names)
        self._offers: list[_Offer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._background = BackgroundTasks()

    async def __aenter__(self) -> Self:
        for config in self._configs:
            label = self._labels[config.name]
            server = McpServer(
                config,
                environment=self._environment,
                patience=self._patience,
                marker_run=marker_run(self._owner, label),
                confined=partial(self._confinement, label, config),
                place=self._place,
            )
            self._offers.append(_Offer(server, label, bytes_max=DECLARED_BYTES_MAX // len(self._configs)))
            self._tasks.append(self._background.start(f"MCP server {label}", server.live))
        return self

    def _confinement(self, label: str, config: McpServerConfig) -> Confinement | None:
        return self._confiner.confinement(label, config) if self._confiner else None

    async def __aexit__(self, *_: object) -> None:
        tasks, self._tasks = self._tasks, []
        for offer, task in zip(self._offers, tasks, strict=True):
            offer.server.closing = True
            task.cancel()
        ended = asyncio.gather(*tasks, return_exceptions=True)
        await join(ended, within_s=CLOSE_S)

    def snapshot(self) -> tuple[Tool, ...]:
        """The known tools, always in the same order, including those of a server that is down."""
        return tuple(tool for offer in self._offers for tool in offer.tools())

    def status(self) -> tuple[McpStatus, ...]:
        """The status of each server."""
        return tuple(offer.status() for offer in self._offers)

    async def tried_once(self, *, within_s: float) -> None:
        """Wait until each server was tried once, up to a limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for offer in self._offers:
                    await offer.server.settled.wait()

    async def insist_on_all(self, *, within_s: float) -> None:
        """Wait until each server is connected; raises BadMcpServer if one isn't."""
        await self.tried_once(within_s=within_s)
        for status in self.status():
            if status.state != "connected":
                why = status.why or f"it didn't connect within {within_s:g} s"
                raise BadMcpServer(f"MCP server {status.name!r} isn't available: {why}")


class _Offer:
    """A server's tools as offered to the model, rebuilt when its list changes."""

    def __init__(self, server: McpServer, label: str, *, bytes_max: int) -> None:
        self.server = server
        self._label = label
        self._bytes_max = bytes_max
        self._made_of = 0
        self._tools: tuple[McpTool, ...] = ()
        self._left_out: tuple[str, ...] = ()

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order of their names."""
        if self._made_of != self.server.listings:
            self._made_of = self.server.listings
            self._make()
        for tool in self._tools:
            tool.note_outage()
        return self._tools

    def status(self) -> McpStatus:
        """The server's status."""
        tools, server = self.tools(), self.server
        return McpStatus(
            name=server.config.name,
            state=server.state,
            tools=len(tools),
            why=server.why,
            left_out=self._left_out,
        )

    def _make(self) -> None:
        listed = {tool.name: tool for tool in self.server.tools}
        tools: list[McpTool] = []
        left_out = [*self.server.unreadable]
        for own, name in mcp_tool_names(self._label, listed).items():
            tool = listed[own]
            try:
                spec = spec_for(
                    name,
                    self.server.config.name,
                    description=tool.description or tool.title or "",
                    schema=tool.input_schema,
                )
            except ToolLeftOut as why:
                left_out.append(f"{plain(own, chars_max=100)}: {why}")
            else:
                as_task = tool.execution is not None and tool.execution.task_support == "required"
                tools.append(McpTool(self.server, own, spec=spec, as_task=as_task))
        for one in left_out:
            if one not in self._left_out:
                _log.warning("MCP server %s: hidden from the model: %s", self.server.config.name, one)
        if sum(tool.spec.declared_bytes for tool in tools) > self._bytes_max:
            for tool in tools:
                tool.spec = replace(tool.spec, on_demand=True)
        self._tools, self._left_out = tuple(tools), tuple(left_out)


def marker_run(owner: str, label: str) -> str:
    """The marker's run id for a server's processes."""
    return f"mcp/{owner}/{label}"
