"""Messages that a person sends to a chat over HTTP, and their delivery status."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.features.channels.files_out import sendable_name
from holdfast.features.channels.http.bodies import SENT_BYTES_MAX, ChannelMessageRequest, ChannelMessageShown
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.features.channels.http.places import checked_chat, configured_in, known_log, named_place
from holdfast.features.channels.kinds import platform_module
from holdfast.folds.outbox import DeliveryState
from holdfast.interfaces.ids import token_hex
from holdfast.interfaces.journal import IfSessionKnown, KeyConflict, Replayed
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import keep_attached
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_response, parsed, read_body
from holdfast.server.transport.once import earlier_response, once_key, replayed
from holdfast.values import FilePart, SentFile

SENT = "send"  # begins the keys of messages that a person sends
_WORDS: Mapping[DeliveryState, str] = MappingProxyType(
    {
        "intended": "pending",
        "attempted": "pending",
        "postponed": "pending",
        "unknown": "pending",
        "confirmed": "delivered",
        "moot": "rejected",
        "rejected": "rejected",
        "given_up": "unconfirmed",
    }
)
_WORST_FIRST = ("rejected", "unconfirmed", "pending", "delivered")


class SentMessageRoutes:
    """The routes under /api/channels/{name}/messages."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def send(self, request: Request) -> Response:
        """POST /api/channels/{name}/messages."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, ChannelMessageRequest)
        name = named_place(request.path_params["name"], configured_in(deps))
        log_id = await known_log(self._deps, name)
        once = once_key(request, body, deps)
        if (earlier := await earlier_response(once, deps, status=202)) is not None:
            return earlier
        message = await self._deliveries(name, wanted, chat=await checked_chat(deps, log_id, wanted.chat))
        id_ = message[0].message.split(".")[1]
        queued = ChannelMessageShown(id=id_, channel=name, chat=message[0].chat, state="pending")
        result = await deps.store.append(
            log_id, message, when=[IfSessionKnown()], idempotency_key=once.of(queued) if once else None
        )
        if isinstance(result, Replayed | KeyConflict):
            return replayed(result, status=202)
        return json_response(queued, 202)

    async def _deliveries(
        self, name: str, wanted: ChannelMessageRequest, *, chat: str
    ) -> list[e.DeliveryIntended]:
        """The deliveries of a message: the parts of its text, then its file."""
        configured = configured_in(self._deps).get(name)
        if configured is None:
            raise bad_request(f"This server has no channel {name[:80]!r} in its configuration", param="name")
        file = await self._file(wanted)
        text = self._deps.redactor.redact_text(wanted.text)
        dialect = (await asyncio.to_thread(platform_module, configured.kind)).DIALECT
        parts = await asyncio.to_thread(dialect.count, text) if text.strip() else 0
        if not parts and file is None:
            raise bad_request("Nothing to send: 'text' is empty, and there is no 'blob'", param="text")
        now_ms, id_ = self._deps.clock.now_ms(), f"{SENT}.{token_hex(12)}"
        made = [
            e.DeliveryIntended(
                at_ms=now_ms,
                chat=chat,
                message=id_,
                part=part,
                parts=parts,
                body=text,
                format=dialect.format,
            )
            for part in range(parts)
        ]
        with_file = e.DeliveryIntended(at_ms=now_ms, chat=chat, message=f"{id_}.file", file=file)
        return made if file is None else [*made, with_file]

    async def _file(self, wanted: ChannelMessageRequest) -> SentFile | None:
        if not wanted.blob:
            return None
        await keep_attached(
            self._deps, [FilePart(blob=wanted.blob, media_type="", name="")], attached={}, param="blob"
        )
        data = await self._deps.store.blob(wanted.blob)
        if data is None or len(data) > SENT_BYTES_MAX:
            raise bad_request(f"The file is larger than {SENT_BYTES_MAX // 2**20} MB", param="blob")
        return SentFile(blob=wanted.blob, name=sendable_name(wanted.name), media_type=wanted.media_type)

    async def message(self, request: Request) -> Response:
        """GET /api/channels/{name}/messages/{message_id}."""
        name, id_ = request.path_params["name"], request.path_params["message_id"]
        log_id = await known_log(self._deps, name)
        outbox = (await self._deps.singleton(ChannelFolds).state(self._deps.store, log_id)).outbox
        texts, file = f"/{SENT}.{id_}/", f"/{SENT}.{id_}.file/0"
        sent = [one for key, one in outbox.deliveries.items() if key.startswith(texts) or key == file]
        if not sent:
            raise Problem(404, f"Message not found: {id_[:80]}", code="message_not_found", param="message_id")
        # The one that is worst off stands for all.
        worst = min(sent, key=lambda one: _WORST_FIRST.index(_WORDS[one.state]))
        return json_response(
            ChannelMessageShown(
                id=id_,
                channel=name,
                chat=worst.intended.chat,
                state=_WORDS[worst.state],
                why="" if worst.state == "confirmed" else worst.why,
            )
        )
