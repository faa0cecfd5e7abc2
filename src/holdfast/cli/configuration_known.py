"""Targets that nobody had to configure: known keys in the environment, model servers on this machine."""

import asyncio
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from importlib.resources import files

import aiohttp
import msgspec

from holdfast.cli.configuration_sources import Source
from holdfast.targets import Wire

PROBE_S = 0.5
LIST_BYTES_MAX = 4_194_304


class KnownKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a variable of this name says about a target."""

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


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data file."""

    known: tuple[KnownKey, ...]
    local: tuple[LocalServer, ...]
    models: _Models


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A model server that answered, and the model of it that was chosen."""

    server: LocalServer
    model: str


class _Listed(msgspec.Struct, frozen=True):
    id: str


class _List(msgspec.Struct, frozen=True):
    data: tuple[_Listed, ...]


def shipped_known() -> Known:
    """The data file that comes with the program."""
    text = (files("holdfast.cli") / "known_targets.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Known)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of [[targets]] as a person would have written it, and what it was made of."""

    values: dict[str, object]
    source: Source
    elsewhere: Source | None = None

    def source_of(self, key: str) -> Source:
        """What a key of it was made of."""
        return self.elsewhere if key == "base_url" and self.elsewhere else self.source


def tables_by_key(known: Known, environ: Mapping[str, str]) -> Iterator[Table]:
    """A table for each known variable that is set."""
    for key in known.known:
        if environ.get(key.variable, "").strip():
            elsewhere = environ.get(key.base_url_variable, "").strip() if key.base_url_variable else ""
            values: dict[str, object] = {
                "name": key.name,
                "wire": key.wire_elsewhere if elsewhere and key.wire_elsewhere else key.wire,
                "base_url": elsewhere or key.base_url,
                "model": key.model,
                "api_key": f"env:{key.variable}",
                "context_window": key.context_window,
            }
            moved = Source("environment", key.base_url_variable) if elsewhere else None
            yield Table(values, Source("known key", key.variable), moved)


def table_of(found: FoundServer) -> Table:
    """The table for a server that was found."""
    values = msgspec.structs.asdict(found.server) | {"model": found.model}
    return Table(dict[str, object](values), Source("local server", found.server.base_url))


async def probe_local(
    known: Known, *, preferred: str = "", patience_s: float = PROBE_S
) -> tuple[FoundServer, ...]:
    """The servers of this machine that list a model for chat, all asked at once with one short deadline."""
    client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
    async with client, asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_models(client, server.base_url, patience_s=patience_s))
            for server in known.local
        ]
    chosen = [_chosen(task.result(), known.models.not_for_chat, preferred=preferred) for task in asked]
    found = [FoundServer(server, model) for server, model in zip(known.local, chosen, strict=True) if model]
    # A server that has the preferred model is the one that was meant.
    return tuple(sorted(found, key=lambda one: one.model != preferred))


async def _models(client: aiohttp.ClientSession, base_url: str, *, patience_s: float) -> Sequence[str]:
    """The models that a server lists; none if it is not there or is something else."""
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
