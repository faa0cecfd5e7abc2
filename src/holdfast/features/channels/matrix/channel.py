"""A Matrix channel: unencrypted rooms, read by sync, and sent to with transaction ids."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from html import escape
from typing import Any

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    FormatRefused,
    FoundThere,
    MayHaveArrived,
    NotAccepted,
    NotThere,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.kinds import CHECK_S, NETWORK
from holdfast.features.channels.matrix.api import (
    ANSWER_S,
    MatrixApi,
    MatrixFailure,
    MatrixReply,
    MatrixResult,
    open_matrix,
)
from holdfast.features.channels.matrix.updates import Room, read_event
from holdfast.features.channels.messages import Unanswered, Unwritten, shaped
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.people import may_talk
from holdfast.features.channels.rich_text import Spans
from holdfast.features.channels.text_platform import TextCarrier, TextMessage, text_format, text_inbound
from holdfast.folds.outbox import OutboxEntry

CHARS_MAX = 16_000
SYNC_S, RETRY_S, RETRY_S_MAX = 30.0, 1.0, 60.0
EVENTS_MAX, PAGES_MAX = 100, 20
HINT = "Check `base_url` (the homeserver) and `token` (an access token of the agent's account)."
ENCRYPTED = "I can't read encrypted rooms. Create a room without encryption and invite me there."
DIALECT = text_format(chars_max=CHARS_MAX)
_TAGS = {"bold": "strong", "italic": "em", "strike": "del", "code": "code", "quote": "blockquote"}
_log = logging.getLogger(__name__)


def html_of(spans: Spans) -> str:
    """Return the spans as the HTML that Matrix clients show."""
    pieces: list[str] = []
    for span in spans:
        is_code = any(style.name == "pre" for style in span.styles)
        html = escape(span.text)
        html = f"<pre><code>{html}</code></pre>" if is_code else html.replace("\n", "<br/>")
        for style in reversed(span.styles):
            if style.name == "link":
                html = f'<a href="{escape(style.value)}">{html}</a>'
            elif style.name in _TAGS:
                html = f"<{_TAGS[style.name]}>{html}</{_TAGS[style.name]}>"
        pieces.append(html)
    return "".join(pieces)


def transaction_of(key: str) -> str:
    """Return the transaction id of a delivery: with the same one, the server sends nothing again."""
    return sha256(key.encode()).hexdigest()[:40]


class Matrix:
    """One account: its rooms, and where it has read them to."""

    def __init__(self, api: MatrixApi, deps: ChannelDeps, options: ChannelOptions, log: ChannelLog) -> None:
        self._api = api
        self._deps = deps
        self._options = options
        self._log = log
        self._us = ""
        self._sizes: dict[str, int] = {}  # members of rooms, until someone joins or leaves
        self._note = f"session/{log.log_id}/sync"

    async def post(self, message: TextMessage) -> SendResult:
        """Send a message to a room or a thread."""
        room_id, _, thread = message.chat.partition("/")
        content: dict[str, Any] = {
            "msgtype": "m.text",
            "body": message.text,
            "format": "org.matrix.custom.html",
            "formatted_body": html_of(message.spans),
        }
        if (file := message.file) is not None:
            stored = await self._api.upload(file.data, name=file.name, media_type=file.media_type)
            if not isinstance(stored, MatrixResult):
                refused = result_of(stored)
                return DidNotArrive(refused.why) if isinstance(refused, MayHaveArrived) else refused
            kind = "m.image" if file.media_type.startswith("image/") else "m.file"
            info = {"mimetype": file.media_type, "size": len(file.data)}
            content = {
                "msgtype": kind,
                "body": file.name,
                "url": stored.value.get("content_uri"),
                "info": info,
            }
            content |= {"filename": file.name, "body": message.text} if message.text else {}
        if thread:
            reply = {"m.in_reply_to": {"event_id": thread}, "is_falling_back": True}
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": thread} | reply
        txn = transaction_of(message.key)
        return result_of(
            await self._api.call("PUT", "rooms", room_id, "send", "m.room.message", txn, body=content)
        )

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Look for the message by its transaction id. A repeat with the same id would be harmless, too."""
        room_id, txn = delivery.intended.chat.partition("/")[0], transaction_of(delivery.key)
        reply = await self._api.call(
            "GET", "rooms", room_id, "messages", query={"dir": "b", "limit": str(EVENTS_MAX)}
        )
        if not isinstance(reply, MatrixResult):
            return DidNotArrive(reply.why) if not isinstance(reply, MatrixFailure) else CannotTell()
        for event in shaped(reply.value.get("chunk"), list[dict[str, Any]]) or []:
            unsigned = shaped(event.get("unsigned"), dict[str, Any]) or {}
            if unsigned.get("transaction_id") == txn:
                return FoundThere(str(event.get("event_id", "")))
        return NotThere()

    async def connect(self, accept: Accept) -> None:
        """Read rooms until cancelled. Failures are logged and retried."""
        clock, retry_s, since, wait_s = self._deps.clock, RETRY_S, "", 0.0
        while True:
            reply = await self._begin() if not self._us else MatrixResult({})
            if isinstance(reply, MatrixResult):
                raw = await self._deps.store.note(self._note)
                since = raw.decode() if raw else ""
                reply = await self._sync(since, wait_s=wait_s)
            if isinstance(reply, MatrixResult):
                if since:  # the first sync only shows where the rooms are now
                    await self._take(reply.value, since, accept)
                await self._join(reply.value)
                # After everything is on the log, so that a crash reads it again.
                await self._deps.store.put_note(self._note, str(reply.value.get("next_batch", "")).encode())
                await self._log.connected(clock.now_ms(), self._us)
                retry_s, wait_s = RETRY_S, SYNC_S
                continue
            await self._log.failed(clock.now_ms(), f"Can't reach Matrix: {reply.why}", HINT)
            wait_s = 0.0  # so that it's soon known to work again
            limited_s = reply.retry_after_s if isinstance(reply, MatrixFailure) else None
            await clock.sleep_s(max(retry_s, limited_s or 0.0))
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _begin(self) -> MatrixReply:
        reply = await self._api.call("GET", "account", "whoami")
        if isinstance(reply, MatrixResult):
            self._us = str(reply.value.get("user_id", ""))
        return reply

    async def _sync(self, since: str, *, wait_s: float) -> MatrixReply:
        query = {"timeout": str(int(1000 * wait_s))} | ({"since": since} if since else {})
        chosen = f'{{"room":{{"timeline":{{"limit":{EVENTS_MAX}}}}},"presence":{{"types":[]}}}}'
        return await self._api.call(
            "GET", "sync", answer_s=SYNC_S + ANSWER_S, query=query | {"filter": chosen}
        )

    async def _take(self, batch: Mapping[str, Any], since: str, accept: Accept) -> None:
        """Take the events of all rooms, those of one room in order."""
        for room_id, joined in _rooms(batch, "join").items():
            timeline = shaped(joined.get("timeline"), dict[str, Any]) or {}
            events = shaped(timeline.get("events"), list[dict[str, Any]]) or []
            if timeline.get("limited"):
                events = [*await self._missed(room_id, str(timeline.get("prev_batch", "")), since), *events]
            if any(event.get("type") == "m.room.member" for event in events):
                self._sizes.pop(room_id, None)
            for event in events:
                await self._event(room_id, event, accept)

    async def _missed(self, room_id: str, start: str, since: str) -> list[dict[str, Any]]:
        """Return the events between the last sync and a timeline that was cut, oldest first."""
        found: list[dict[str, Any]] = []
        for _ in range(PAGES_MAX):
            query = {"dir": "b", "limit": str(EVENTS_MAX), "from": start, "to": since}
            reply = await self._api.call("GET", "rooms", room_id, "messages", query=query)
            if not isinstance(reply, MatrixResult):
                break
            found += shaped(reply.value.get("chunk"), list[dict[str, Any]]) or []
            start = str(reply.value.get("end", ""))
            if not start:
                return found[::-1]
        _log.warning("channel %s: some messages in %s may be lost", self._log.log_id, room_id)
        return found[::-1]

    async def _event(self, room_id: str, event: dict[str, Any], accept: Accept) -> None:
        sender = str(event.get("sender", ""))
        if event.get("type") == "m.room.encrypted" and may_talk(self._options, self._log.state, sender):
            content = {"msgtype": "m.notice", "body": ENCRYPTED}
            txn = transaction_of(f"encrypted/{room_id}")
            await self._api.call("PUT", "rooms", room_id, "send", "m.room.message", txn, body=content)
            return
        is_direct = await self._size(room_id) == 2  # noqa: PLR2004  # one person and us
        arrival = read_event(event, Room(room_id, self._us, is_direct))
        if arrival is not None:
            await accept(arrival)

    async def _size(self, room_id: str) -> int:
        if room_id not in self._sizes:
            reply = await self._api.call("GET", "rooms", room_id, "joined_members")
            if not isinstance(reply, MatrixResult):
                return 0
            self._sizes[room_id] = len(shaped(reply.value.get("joined"), dict[str, Any]) or {})
        return self._sizes[room_id]

    async def _join(self, batch: Mapping[str, Any]) -> None:
        """Accept invitations of people with access, and of anyone while a pairing code is open."""
        state = self._log.state
        for room_id, invited in _rooms(batch, "invite").items():
            events = shaped(invited.get("invite_state"), dict[str, list[dict[str, Any]]]) or {}
            senders = [
                str(one.get("sender")) for one in events.get("events", []) if one.get("state_key") == self._us
            ]
            has_code = bool(state.open_codes(self._deps.clock.now_ms()))
            if any(has_code or may_talk(self._options, state, sender) for sender in senders):
                await self._api.call("POST", "rooms", room_id, "join", body={})


def _rooms(batch: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    rooms = shaped(batch.get("rooms"), dict[str, Any]) or {}
    return shaped(rooms.get(kind), dict[str, dict[str, Any]]) or {}


def result_of(reply: MatrixReply) -> SendResult:
    """Classify a reply about a message."""
    match reply:
        case MatrixResult(value=value):
            return Arrived(str(value.get("event_id", "")))
        case Unwritten(why=why):
            return DidNotArrive(why)
        case Unanswered(why=why):
            return MayHaveArrived(why)
        case MatrixFailure(status=429) | MatrixFailure(status=401):
            return DidNotArrive(reply.why, reply.retry_after_s)
        case MatrixFailure(status=403):
            return NotAccepted(reply.why, ends_chat=True)
        case MatrixFailure(status=400):
            return FormatRefused(reply.why)
        case MatrixFailure():
            return NotAccepted(reply.why)


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one account, until the block ends."""
    async with open_matrix(homeserver=options.base_url, token=str(options.token)) as api:
        matrix = Matrix(api, deps, options, log)

        async def download(file: ChatFile) -> bytes | None:
            return await api.download(file.handle, bytes_max=options.file_bytes_max)

        yield ChatPlatform(
            carrier=TextCarrier(deps, log, matrix.post, chars_max=CHARS_MAX, probe=matrix.probe),
            inbound=text_inbound(DIALECT, download=download),
            connect=matrix.connect,
            can_probe=True,
        )


async def check(options: ChannelOptions) -> DoctorFinding:
    """Check it for `holdfast doctor`."""
    name = f"channel {options.name}"
    async with open_matrix(homeserver=options.base_url, token=str(options.token)) as api:
        reply = await api.call("GET", "account", "whoami", answer_s=CHECK_S)
    if isinstance(reply, MatrixResult):
        return ok(name, f"connected to Matrix as {reply.value.get('user_id', '')}")
    if isinstance(reply, MatrixFailure):
        return fault(name, f"The homeserver rejected the token: {reply.why}", "check `token`")
    return fault(name, f"Can't reach the homeserver: {reply.why}", NETWORK)
