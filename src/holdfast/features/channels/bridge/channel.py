"""A bridge: another program passes on a chat system's messages. Both sides sign by Standard Webhooks."""

import asyncio
import hmac
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Literal

import aiohttp
import msgspec
from yarl import URL

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.decisions.deliveries import (
    Arrived,
    DidNotArrive,
    FormatRefused,
    MayHaveArrived,
    NotAccepted,
    SendResult,
)
from holdfast.decisions.hook_signatures import standard_key
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.http.bodies import ChannelUpdateAccepted
from holdfast.features.channels.http.webhook_endpoints import BadUpdate
from holdfast.features.channels.incoming import Arrival, ChatFile, MessageDeletion, PlatformMessage
from holdfast.features.channels.messages import CONNECT_S, Unanswered, Unwritten, answer_to, tracing
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.text_platform import (
    TextCarrier,
    TextMessage,
    text_format,
    text_inbound,
)
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.system_clock import SystemClock

CHARS_MAX = 4_000
ANSWER_S = 60.0
BEAT_S, RETRY_S = 60.0, 5.0
BODY_BYTES_MAX = 64 * 1024
DIALECT = text_format(chars_max=CHARS_MAX)
HINT = "Check `base_url`, and that the bridge is running and has the same secret."
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class BridgeFile(msgspec.Struct):
    """A file that a message brings, in base64."""

    data: str
    name: str = "file"
    media_type: str = "application/octet-stream"


class BridgeUpdate(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """A message that someone wrote, edited or deleted. `id` is the same however often it's sent."""

    id: _Text
    chat: _Text
    user: _Text
    message_id: Annotated[str, msgspec.Meta(max_length=200)] = ""  # the chat system's; default: `id`
    text: str = ""
    name: str = ""
    direct: bool = True
    mentions_agent: bool = False
    change: Literal["", "edited", "deleted"] = ""
    files: Annotated[list[BridgeFile], msgspec.Meta(max_length=20)] = []


class _Sent(msgspec.Struct):
    message_id: str = ""


def read_update(body: bytes) -> Arrival:
    """Parse a signed update; raises BadUpdate."""
    try:
        update = msgspec.json.decode(body, type=BridgeUpdate)
        files = tuple(
            ChatFile("", one.name, one.media_type, len(data), data)
            for one in update.files
            if (data := b64decode(one.data, validate=True))
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, BadBase64, RecursionError) as error:
        raise BadUpdate(f"The update is invalid: {error}"[:300]) from error
    platform_id = update.message_id or update.id
    if update.change == "deleted":
        return MessageDeletion(
            key=f"d:{update.id}", chat=update.chat, platform_id=platform_id, user=update.user
        )
    return PlatformMessage(
        key=f"m:{update.id}",
        chat=update.chat,
        user=update.user,
        name=update.name or update.user,
        text=update.text.strip(),
        platform_id=platform_id,
        is_direct=update.direct,
        is_for_us=update.direct or update.mentions_agent,
        is_edit=update.change == "edited",
        files=files,
    )


class Bridge:
    """The bridge's address, and the secret that both sides sign with."""

    def __init__(self, http: aiohttp.ClientSession, options: ChannelOptions, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._url = options.base_url
        self.origin = str(URL(options.base_url).origin())
        self._key = standard_key(options.token)

    async def post(self, message: TextMessage) -> SendResult:
        """Send a message."""
        body: dict[str, Any] = {"type": "message", "chat": message.chat, "text": message.text}
        body |= {"repeat": True} if message.is_marked else {}
        if (file := message.file) is not None:
            data = b64encode(file.data).decode()
            body["file"] = {"name": file.name, "media_type": file.media_type, "data": data}
        return await self._call(message.key, body)

    async def ping(self) -> SendResult:
        """Ask whether the bridge is there."""
        return await self._call(f"ping/{self._clock.now_ms()}", {"type": "ping"})

    async def _call(self, key: str, content: dict[str, Any]) -> SendResult:
        id_, at = f"msg_{sha256(key.encode()).hexdigest()[:32]}", str(self._clock.now_ms() // 1000)
        body = msgspec.json.encode({"id": id_} | content)
        signature = b64encode(hmac.digest(self._key, f"{id_}.{at}.".encode() + body, "sha256")).decode()
        headers = {"webhook-id": id_, "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}
        answer = await answer_to(
            self._http,
            "POST",
            self._url,
            data=body,
            headers=headers | {"Content-Type": "application/json"},
            bytes_max=BODY_BYTES_MAX,
            answer_s=ANSWER_S,
        )
        match answer:
            case Unwritten(why=why):
                return DidNotArrive(why)
            case Unanswered(why=why):
                return MayHaveArrived(why)
            case response, data:
                return result_of(response.status, data, retry_after=response.headers.get("Retry-After", ""))


def result_of(status: int, body: bytes, *, retry_after: str = "") -> SendResult:
    """Classify a bridge's response."""
    why = f"HTTP {status}: {body[:200].decode('utf-8', 'replace').strip()}".rstrip(": ")
    match status:
        case _ if status // 100 == 2:  # noqa: PLR2004  # success
            try:
                return Arrived(msgspec.json.decode(body, type=_Sent).message_id[:200])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return Arrived("")
        case 429 | 503:  # with the promise that nothing was sent
            return DidNotArrive(why, float(retry_after) if retry_after.isdecimal() else None)
        case 401 | 403:  # the secret, not the message
            return DidNotArrive(why)
        case 410:
            return NotAccepted(why, ends_chat=True)
        case 400:
            return FormatRefused(why)
        case _ if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return NotAccepted(why)
        case _:
            return MayHaveArrived(why)


@asynccontextmanager
async def open_bridge(options: ChannelOptions, clock: Clock) -> AsyncGenerator[Bridge]:
    """The bridge. Each request opens a new connection, so that it's known whether it was written."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[tracing()]) as http:
        yield Bridge(http, options, clock)


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform behind one bridge, until the block ends."""
    async with open_bridge(options, deps.clock) as bridge:
        locks = ChatLocks()

        async def connect(accept: Accept) -> None:
            async def deliver(body: bytes) -> ChannelUpdateAccepted:
                arrival = await asyncio.to_thread(read_update, body)
                async with locks.of(arrival.chat):
                    await accept(arrival)
                return ChannelUpdateAccepted(accepted=True)

            with deps.endpoints.opened(options.name, deliver):
                await _watch(bridge, deps.clock, log)

        carrier = TextCarrier(deps, log, bridge.post, chars_max=CHARS_MAX)
        yield ChatPlatform(carrier=carrier, inbound=text_inbound(DIALECT), connect=connect)


async def _watch(bridge: Bridge, clock: Clock, log: ChannelLog) -> None:
    """Log whether the bridge responds, until cancelled."""
    while True:
        result = await bridge.ping()
        if isinstance(result, Arrived):
            await log.connected(clock.now_ms(), bridge.origin)
        else:
            await log.failed(clock.now_ms(), f"The bridge doesn't respond: {result.why}", HINT)
        await clock.sleep_s(BEAT_S if isinstance(result, Arrived) else RETRY_S)


async def check(options: ChannelOptions) -> DoctorFinding:
    """Check it for `holdfast doctor`."""
    name = f"channel {options.name}"
    async with open_bridge(options, SystemClock()) as bridge:
        result = await bridge.ping()
    if isinstance(result, Arrived):
        return ok(name, f"the bridge at {options.base_url} responds")
    return fault(name, f"The bridge doesn't respond: {result.why}", HINT)
