"""Looks for model servers on this machine."""

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus

import aiohttp
import msgspec

from holdfast.config.known_targets import FoundServer, KnownTargets

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
