"""The sender of a message: its protocol version and capabilities.

Up to version 2025-11-25, a client sends this once, in `initialize`. The session id it gets encodes it for
later requests, so the server is stateless. Since 2026-07-28, each request contains it.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, cast

from msgspec import UNSET, Struct, field
from starlette.datastructures import Headers

from holdfast.features.mcp_server.bodies import RpcMessage
from holdfast.features.mcp_server.rpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    Json,
    RpcError,
)

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
PRIMED_VERSION = "2025-11-25"  # its clients know an event without data, which only carries an id
SUPPOSED_VERSION = "2025-03-26"  # of a client that names none

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
SESSION_HEADER = "mcp-session-id"
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
_VERSION_META, _CAPABILITIES_META = META + "protocolVersion", META + "clientCapabilities"
_NAMED: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_SESSION = re.compile(r"mcp\.(\d{4}-\d\d-\d\d)\.(e?s?)\.[0-9a-f]{32}")
_FLAGS = {"e": "elicitation", "s": "sampling"}
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")


class McpPeer(Struct, frozen=True):
    """A client, as far as one request tells."""

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: str = ""

    @property
    def is_modern(self) -> bool:
        """Whether each of its requests stands alone."""
        return self.version in MODERN_VERSIONS

    @property
    def is_primed(self) -> bool:
        """Whether its streams begin with a cursor."""
        return self.version == PRIMED_VERSION

    @property
    def can_elicit(self) -> bool:
        """Whether it shows a person a form."""
        given = self.capabilities.get("elicitation")
        return isinstance(given, dict) and (not given or "form" in given)

    @property
    def has_tasks(self) -> bool:
        """Whether it takes a task in place of a result."""
        extensions = self.capabilities.get("extensions")
        return self.is_modern and isinstance(extensions, dict) and TASKS in extensions


def agreed_version(params: Json) -> str:
    """The version to answer `initialize` with; raises an RpcError."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "Missing 'protocolVersion'")
    return wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


def new_session(version: str, capabilities: object) -> str:
    """The id of a session with a client that can do this."""
    given = cast("Json", capabilities) if isinstance(capabilities, dict) else {}
    flags = "".join(flag for flag, name in _FLAGS.items() if isinstance(given.get(name), dict))
    elicitation = given.get("elicitation")
    if isinstance(elicitation, dict) and elicitation and "form" not in elicitation:
        flags = flags.replace("e", "")  # it only opens links
    return f"mcp.{version}.{flags}.{token_hex(16)}"


def peer_of(message: RpcMessage, headers: Headers) -> McpPeer:
    """Identify the sender; raises an RpcError if the request is inconsistent."""
    params = message.params if isinstance(message.params, dict) else {}
    meta: object = params.get("_meta")
    fields = cast("Json", meta) if isinstance(meta, dict) else {}
    named = headers.get(VERSION_HEADER)
    says_it_itself = _VERSION_META in fields
    if not says_it_itself and (
        named is None or named in HANDSHAKE_VERSIONS or message.method == "initialize"
    ):
        return handshake_peer(headers)
    if not says_it_itself and named not in MODERN_VERSIONS:
        raise _unsupported(named)
    if message.method is UNSET or message.id is UNSET:
        return McpPeer(_served(named))
    return _modern_peer(message, fields, headers)


def handshake_peer(headers: Headers) -> McpPeer:
    """A client that said in `initialize` what it can do; raises an RpcError if its session isn't one."""
    given = headers.get(SESSION_HEADER, "")
    named = headers.get(VERSION_HEADER, "")
    if named in MODERN_VERSIONS and not given:
        text = "Since version 2026-07-28, all requests are POST requests"
        raise RpcError(INVALID_REQUEST, text, status=405)
    if not given:
        return McpPeer(named if named in HANDSHAKE_VERSIONS else SUPPOSED_VERSION)
    found = _SESSION.fullmatch(given)
    if found is None or found[1] not in HANDSHAKE_VERSIONS:
        text = "Unknown session. Send 'initialize' without an Mcp-Session-Id to start a new one"
        raise RpcError(INVALID_REQUEST, text, status=404)
    if named and named not in HANDSHAKE_VERSIONS:
        raise _unsupported(named)
    return McpPeer(found[1], {_FLAGS[flag]: {} for flag in found[2]}, given)


def _modern_peer(message: RpcMessage, meta: Json, headers: Headers) -> McpPeer:
    for name in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER):
        if len(headers.getlist(name)) > 1:
            raise _mismatch(f"The header {name} is repeated")
    missing = [name for name in (_VERSION_META, _CAPABILITIES_META) if name not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"'params._meta' lacks {' and '.join(missing)}")
    version, capabilities = meta[_VERSION_META], meta[_CAPABILITIES_META]
    if _header_value(headers.get(VERSION_HEADER)) != version:
        raise _mismatch(f"The header {VERSION_HEADER} doesn't match the version in 'params._meta'")
    if _header_value(headers.get(METHOD_HEADER)) != message.method:
        raise _mismatch(f"The header {METHOD_HEADER} doesn't match the message's method")
    _check_name(message, headers)
    _served(version)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"'{_CAPABILITIES_META}' must be an object")
    return McpPeer(version, cast("Json", capabilities))


def _check_name(message: RpcMessage, headers: Headers) -> None:
    """Raise an RpcError unless the header names what the message is about."""
    param = _NAMED.get(str(message.method))
    value = message.params.get(param) if param and isinstance(message.params, dict) else None
    if isinstance(value, str) and _header_value(headers.get(NAME_HEADER)) != value:
        raise _mismatch(f"The header {NAME_HEADER} doesn't match the message's '{param}'")


def _header_value(given: str | None) -> str | None:
    """The text in a header, which may be encoded; None if it can't be read."""
    given = None if given is None else given.strip(" \t")
    found = _BASE64.fullmatch(given) if given is not None else None
    if found is None:
        return given
    try:
        return b64decode(found[1], validate=True).decode()
    except ValueError:
        return None


def _served(version: object) -> str:
    if not isinstance(version, str) or version not in MODERN_VERSIONS:
        raise _unsupported(version)
    return version


def _mismatch(text: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, text, status=400)


def _unsupported(version: object) -> RpcError:
    data: Json = {"supported": list(MODERN_VERSIONS), "requested": str(version)[:40]}
    return RpcError(UNSUPPORTED_VERSION, "This protocol version isn't supported", data=data, status=400)
