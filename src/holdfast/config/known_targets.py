"""Targets that need no configuration: those of known keys and of model servers on this machine.

Looks for model servers on this machine.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from holdfast.config.sources import SettingSource
from holdfast.config.toml import parse_toml
from holdfast.targets import Wire


class KnownKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target that a variable with a key makes."""

    variable: str
    name: str
    wire: Wire
    base_url: str
    model: str
    context_window: int
    base_url_variable: str = ""
    wire_elsewhere: Wire | None = None


class LocalServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model server that may run on this machine."""

    name: str
    wire: Wire
    base_url: str
    context_window: int


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_for_chat: tuple[str, ...]


class KnownTargets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data file."""

    known: tuple[KnownKey, ...]
    local: tuple[LocalServer, ...]
    models: _Models


class FoundServer(Struct, frozen=True):
    """A model server that answered, and the model of it that was chosen."""

    server: LocalServer
    model: str


def shipped_known() -> KnownTargets:
    """The data file that comes with the program."""
    text = Path(__file__).with_name("known_targets.toml").read_text("utf-8")
    return msgspec.convert(parse_toml(text), KnownTargets)


class TargetTable(Struct, frozen=True):
    """A [[targets]] table as a person would write it, and where it comes from."""

    values: dict[str, object]
    source: SettingSource
    elsewhere: SettingSource | None = None

    def source_of(self, key: str) -> SettingSource:
        """Where a key of it comes from."""
        return self.elsewhere if key == "base_url" and self.elsewhere else self.source


def tables_by_key(known: KnownTargets, environ: Mapping[str, str]) -> Iterator[TargetTable]:
    """A table for each known variable that is set."""
    for key in known.known:
        if environ.get(key.variable, "").strip():
            elsewhere = environ.get(key.base_url_variable, "").strip().rstrip("/")
            elsewhere = "" if elsewhere == key.base_url else elsewhere
            values: dict[str, object] = {
                "name": key.name,
                "wire": key.wire_elsewhere if elsewhere and key.wire_elsewhere else key.wire,
                "base_url": elsewhere or key.base_url,
                "model": key.model,
                "api_key": f"env:{key.variable}",
                "context_window": key.context_window,
            }
            moved = SettingSource("environment", key.base_url_variable) if elsewhere else None
            yield TargetTable(values, SettingSource("known key", key.variable), moved)


def table_of(found: FoundServer) -> TargetTable:
    """The table for a server that was found."""
    values = msgspec.structs.asdict(found.server) | {"model": found.model}
    return TargetTable(dict[str, object](values), SettingSource("local server", found.server.base_url))


PROBE_S = 0.5
LIST_BYTES_MAX = 4_194_304


class _Listed(msgspec.Struct, frozen=True):
    id: str


class _List(msgspec.Struct, frozen=True):
    data: tuple[_Listed, ...]


async def probe_local(
    known: KnownTargets, *, preferred: str = "", patience_s: float = PROBE_S
) -> tuple[FoundServer, ...]:
    """The servers on this machine that list a chat model, all asked at once with one short deadline."""
    client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
    async with client, asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_models(client, server.base_url, patience_s=patience_s))
            for server in known.local
        ]
    chosen = [_chosen(task.result(), known.models.not_for_chat, preferred=preferred) for task in asked]
    found = [FoundServer(server, model) for server, model in zip(known.local, chosen, strict=True) if model]
    # A server with the preferred model comes first.
    return tuple(sorted(found, key=lambda one: one.model != preferred))


async def _models(client: aiohttp.ClientSession, base_url: str, *, patience_s: float) -> Sequence[str]:
    """The models that a server lists; none if nothing answers or it is no model server."""
    try:
        async with (
            asyncio.timeout(patience_s),
            client.get(f"{base_url}/models", allow_redirects=False) as answer,
        ):
            body = await answer.content.read(LIST_BYTES_MAX) if answer.status == HTTPStatus.OK else b""
            while body and len(body) < LIST_BYTES_MAX and not answer.content.at_eof():
                body += await answer.content.read(LIST_BYTES_MAX - len(body))
        return [model.id for model in msgspec.json.decode(body, type=_List).data]
    except (aiohttp.ClientError, OSError, msgspec.MsgspecError, UnicodeDecodeError, TimeoutError):
        return ()


def _chosen(models: Sequence[str], not_for_chat: Sequence[str], *, preferred: str) -> str:
    if preferred in models:
        return preferred
    fit = (
        model for model in models if not any(fnmatchcase(model.lower(), pattern) for pattern in not_for_chat)
    )
    return next(fit, "")
