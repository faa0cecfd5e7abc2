"""A configured MCP server and how long it may take, as plain values; importing them does not load the SDK."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from holdfast.config.settings import McpOAuthSettings, McpSandboxSettings, McpServerSettings
from holdfast.sandbox.profile import ServerAccess

NAME_CHARS_MAX = 64
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class BadMcpServer(ValueError):
    """An invalid MCP server configuration; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server that is either started (`command`) or called (`url`); raises BadMcpServer.

    `env` and `headers` may hold secrets, so they are never shown.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""  # empty is our own
    transport: Literal["auto", "http", "sse"] = "auto"
    oauth: McpOAuthSettings | None = None  # None: everything is discovered
    roots: Literal["off", "workspace"] = "off"
    access: ServerAccess | None = field(default_factory=ServerAccess)  # None: it runs without a sandbox
    patience_s: float = 180.0
    tool_patience_s: Mapping[str, float] = field(
        default_factory=dict[str, float]
    )  # by the server's own names

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > NAME_CHARS_MAX or not self.name.isprintable():
            raise BadMcpServer(f"An MCP server needs a printable name of 1 to {NAME_CHARS_MAX} characters.")
        if bool(self.command) == bool(self.url):
            raise BadMcpServer(f"MCP server {self.name!r}: set either command or url.")
        if self.url and not self.host:
            raise BadMcpServer(f"MCP server {self.name!r}: the url must be http:// or https:// with a host.")
        if self.command and not self.command[0]:
            raise BadMcpServer(f"MCP server {self.name!r}: the command is empty.")
        if min([self.patience_s, *self.tool_patience_s.values()]) <= 0:
            raise BadMcpServer(f"MCP server {self.name!r}: patience_s must be more than 0.")
        document = self.oauth.client_metadata_url if self.oauth else ""
        if document and (urlsplit(document).scheme != "https" or urlsplit(document).path in {"", "/"}):
            raise BadMcpServer(f"MCP server {self.name!r}: client_metadata_url must be https:// with a path.")
        for header, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(header) or not value.isascii() or not value.isprintable():
                raise BadMcpServer(f"MCP server {self.name!r}: header {header!r} can't be sent.")

    @property
    def host(self) -> str:
        """The host of the url; empty for a server that is started, and for a url that is none."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return ""
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""

    def patience_for_s(self, tool: str) -> float:
        """How long one call of the tool may take."""
        return self.tool_patience_s.get(tool, self.patience_s)


def mcp_config(server: McpServerSettings) -> McpServerConfig:
    """Convert the settings of a server. Raises BadMcpServer."""
    return McpServerConfig(
        name=server.name,
        command=server.command,
        url=server.url,
        env={name: str(value) for name, value in server.env.items()},
        headers={name: str(value) for name, value in server.headers.items()},
        transport=server.transport,
        oauth=server.oauth if server.oauth != McpOAuthSettings() else None,
        roots=server.roots,
        access=_access(server.sandbox),
    )


def _access(sandbox: McpSandboxSettings) -> ServerAccess | None:
    if sandbox.mode == "off":
        return None
    network = sandbox.network
    return ServerAccess(
        network=network if isinstance(network, str) else "hosts",
        hosts=() if isinstance(network, str) else network,
        write=sandbox.write,
        read=sandbox.read,
        caches=sandbox.caches,
    )
