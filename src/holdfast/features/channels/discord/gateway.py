"""Discord's gateway: a socket that we open, which tells what happens, and is resumed where it was accepted.

The sequence that a session is resumed from moves only after what it tells is on the log. A session that
can't be resumed is followed by a new one, and by a look at the history of every known chat.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.discord.api import (
    VERSION,
    ApiRequest,
    DiscordApi,
    DiscordFailure,
    DiscordReply,
    DiscordResult,
)
from holdfast.features.channels.discord.carrier import KeptProgress, Progress, ResumePoint
from holdfast.features.channels.discord.intake import DiscordIntake
from holdfast.features.channels.messages import UNREADABLE, Unanswered, failure_text, shaped
from holdfast.features.channels.texts import COMMANDS
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
OPEN_S = 30.0  # until the socket is open and Discord knows us
USUAL_INTERVAL_MS, INTERVAL_MS_MAX = 41_250, 3_600_000
FRAME_BYTES_MAX = 16 * 1024 * 1024
BACKOFF_FIRST_S, BACKOFF_LAST_S, FINAL_S = 1.0, 60.0, 600.0
INVALID_S = 1.0  # Discord wants a pause before the next attempt
STABLE_S = 30.0  # a connection that lasted this long was a good one
USUAL_MAX = 3  # consecutive short connections that don't count as a failure
CLOSE_S = 2.0
KEEP_S = 1.0  # the least between two notes of how far we are
MISSED = "first messages in new direct chats, and button presses, while disconnected"
LOST = 4000  # we close a socket that is dead with this, so that its session stays
NO_RESUME = frozenset({1000, 1001, 4007, 4009})  # the session is over
UNAUTHORIZED = 401
TAKES_VALUE = {
    "model": "The model's name",
    "approve": "The ID on the card; add session or always to allow it for longer",
    "deny": "The ID on the card",
}
_TOKEN_HINT = "Copy the token again: discord.com/developers, your application, Bot, Reset Token."  # noqa: S105
_FINAL: Final[Mapping[int, tuple[str, str]]] = {
    4004: ("The token is wrong", _TOKEN_HINT),
    4010: ("Discord rejected the connection (4010)", "This is a bug in Holdfast. Please report it."),
    4011: (
        "The bot is in too many servers for one connection (4011)",
        "Use a separate bot for this agent.",
    ),
    4012: ("Discord no longer supports this API version (4012)", "Update Holdfast."),
    4013: ("Discord rejected the intents (4013)", "This is a bug in Holdfast. Please report it."),
    4014: (
        "The bot's Message Content intent is off (4014)",
        'Turn it on (discord.com/developers, your application, Bot), or set groups = "mention".',
    ),
}


class _Ended(Struct, frozen=True):
    """Why a connection ended, whether its session can be resumed, and how long to wait.

    A `usual` ending happens every day, and is a failure only if it repeats.
    """

    why: str
    hint: str = ""
    can_resume: bool = True
    wait_s: float | None = None
    usual: bool = False


class _Frame(msgspec.Struct, frozen=True):
    """A gateway frame, common to all opcodes."""

    op: int
    t: str | None = None
    s: int | None = None
    d: Any = None


class _Hello(msgspec.Struct, frozen=True):
    heartbeat_interval: Annotated[float, msgspec.Meta(gt=0, le=INTERVAL_MS_MAX)] = USUAL_INTERVAL_MS


class _Ready(msgspec.Struct, frozen=True):
    session_id: Annotated[str, msgspec.Meta(min_length=1)]
    resume_gateway_url: str = ""


class _StartLimit(msgspec.Struct, frozen=True):
    remaining: int = 1
    reset_after: float = 0.0


class _GatewayAddress(msgspec.Struct, frozen=True):
    url: str
    session_start_limit: _StartLimit = _StartLimit()


class DiscordGateway:
    """Reads the gateway until cancelled. Failures are logged and retried."""

    def __init__(
        self,
        api: DiscordApi,
        log: ChannelLog,
        clock: Clock,
        *,
        intake: DiscordIntake,
        kept: KeptProgress,
        intents: int,
    ) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self._intake = intake
        self._kept = kept
        self._intents = intents
        self._progress: Progress | None = None
        self._is_ready = False

    async def run(self) -> None:
        """Connect and read, again and again."""
        point, failures = await self._kept.load(), 0
        if point is not None and self._api.is_gateway_address(point.url):
            self._progress = Progress(point.session_id, point.url, point.seq)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep())
            while True:
                self._is_ready, began_s = False, self._clock.steady_s()
                ended = await self._once()
                is_stable = self._is_ready and self._clock.steady_s() - began_s >= STABLE_S
                failures = 0 if is_stable else failures + 1
                if not ended.can_resume and self._progress is not None:
                    self._progress = None
                    await self._kept.drop()
                if not ended.usual or failures > USUAL_MAX:
                    await self._channel.failed(self._clock.now_ms(), ended.why, ended.hint)
                backoff_s = (
                    min(BACKOFF_FIRST_S * 2 ** min(failures - 1, 6), BACKOFF_LAST_S) if failures else 0.0
                )
                await self._clock.sleep_s(backoff_s if ended.wait_s is None else ended.wait_s)

    async def _keep(self) -> None:
        """Note how far the session is accepted, at a pace."""
        kept: ResumePoint | None = None
        while True:
            await self._intake.changed.wait()
            self._intake.changed.clear()
            progress = self._progress
            if progress is not None and progress.is_taken and progress.point != kept:
                kept = progress.point
                await self._kept.keep(kept)
            await self._clock.sleep_s(KEEP_S)

    async def _once(self) -> _Ended:
        """One connection, from its beginning to its end."""
        me = await self._api.who_am_i()
        if not isinstance(me, DiscordResult):
            return _not_reached(me)
        url = self._progress.url if self._progress is not None else ""
        if not url:
            found = await self._address()
            if isinstance(found, _Ended):
                return found
            url = found
        try:
            async with asyncio.timeout(OPEN_S):
                socket = await self._api.session.ws_connect(
                    URL(url).with_query(v=str(VERSION), encoding="json"),
                    max_msg_size=FRAME_BYTES_MAX,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),  # pyright: ignore[reportCallIssue]
                    autoclose=False,
                    compress=0,
                )
        except TimeoutError:
            return _Ended(f"Can't reach Discord's gateway: no connection within {OPEN_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return _Ended(f"Can't reach Discord's gateway: {failure_text(error)}")
        try:
            return await self._read(socket)
        finally:
            # Any code but 1000 and 1001 leaves the session alive, so that it can be resumed.
            await socket.close(code=LOST)

    async def _address(self) -> str | _Ended:
        reply = await self._api.call(ApiRequest("GET", "/gateway/bot", "GET gateway"))
        if not isinstance(reply, DiscordResult):
            return _not_reached(reply)
        found = shaped(reply.value, _GatewayAddress)
        if found is None:
            return _not_reached(Unanswered(UNREADABLE))
        if found.session_start_limit.remaining == 0:
            wait_s = found.session_start_limit.reset_after / 1000
            why = "The bot reached Discord's session start limit for today"
            return _Ended(why, wait_s=max(wait_s, BACKOFF_LAST_S))
        url = found.url
        if not self._api.is_gateway_address(url):
            return _Ended("Discord returned a gateway URL of another host", wait_s=BACKOFF_LAST_S)
        return url

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> _Ended:
        """Introduce ourselves, then read what Discord tells until the socket ends."""
        try:
            async with asyncio.timeout(OPEN_S):
                hello = await _payload(socket)
        except TimeoutError:
            return _Ended(f"Discord's gateway sent nothing within {OPEN_S:g} s")
        if hello is None or hello.op != HELLO:
            return _closed(socket)
        try:
            interval_s = msgspec.convert(hello.d or {}, _Hello).heartbeat_interval / 1000
        except msgspec.ValidationError:
            return _Ended("Discord's gateway sent an invalid hello")
        async with _beating(_Heartbeats(self, socket, interval_s), self._clock) as beats:
            await self._introduce(socket)
            try:
                async with asyncio.timeout(OPEN_S) as until_ready:
                    return await self._told(socket, beats, until_ready)
            except TimeoutError:
                return _Ended(f"Discord's gateway didn't confirm the session within {OPEN_S:g} s")

    async def _told(
        self, socket: aiohttp.ClientWebSocketResponse, beats: "_Heartbeats", until_ready: asyncio.Timeout
    ) -> _Ended:
        while (payload := await _payload(socket)) is not None:
            match payload.op:
                case 0:
                    if (ended := await self._dispatched(payload)) is not None:
                        return ended
                    if self._is_ready:
                        until_ready.reschedule(None)
                case 1:
                    await beats.beat()
                case 11:
                    beats.is_answered = True
                case 7:
                    return _Ended("Discord requested a reconnect", usual=True)
                case 9:
                    can_resume = bool(payload.d)
                    why = "Discord rejected the session (invalid session)"
                    return _Ended(why, can_resume=can_resume, wait_s=INVALID_S, usual=True)
                case _:
                    pass
        return _closed(socket)

    async def _introduce(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        token = self._api.token
        if self._progress is not None:
            point = self._progress.point
            resume = {"token": token, "session_id": point.session_id, "seq": point.seq}
            await say(socket, {"op": RESUME, "d": resume})
            return
        properties = {"os": sys.platform, "browser": "holdfast", "device": "holdfast"}
        identify = {"token": token, "intents": self._intents, "properties": properties}
        await say(socket, {"op": IDENTIFY, "d": identify})

    async def _dispatched(self, payload: _Frame) -> _Ended | None:
        """Take in an event; says why if the connection is of no use after it."""
        name, data, seq = payload.t or "", payload.d, payload.s or 0
        if name == "READY":
            try:
                ready = msgspec.convert(data, _Ready)
            except msgspec.ValidationError:
                return _Ended("Discord's gateway sent READY without a session", can_resume=False)
            url = ready.resume_gateway_url
            url = url if self._api.is_gateway_address(url) else ""
            self._progress = Progress(ready.session_id, url, seq)
            self._intake.catch_up(self._progress, seq)
            # Only a session that is resumed tells all of what happened meanwhile.
            await self._connected(missed=MISSED if self._channel.state.account else "")
            return None
        if self._progress is None:
            return _Ended("Discord's gateway sent an event before READY")
        if name == "RESUMED":
            await self._connected()
        await self._intake.told(name, data, progress=self._progress, seq=seq)
        return None

    async def _connected(self, *, missed: str = "") -> None:
        self._is_ready = True
        if await self._channel.connected(self._clock.now_ms(), self._api.bot_name, missed=missed):
            await self._register_commands()

    async def _register_commands(self) -> None:
        """Put our commands into Discord's own list; without them, they can still be written."""
        value = {"type": 3, "name": "value", "required": False}
        commands = [
            {
                "name": name,
                "description": what,
                "type": 1,
                "options": [value | {"description": TAKES_VALUE[name]}] if name in TAKES_VALUE else [],
            }
            for name, what in COMMANDS.items()
        ]
        path = f"/applications/{self._api.bot_id}/commands"
        reply = await self._api.call(ApiRequest("PUT", path, "PUT commands"), commands)
        if not isinstance(reply, DiscordResult):
            _log.warning("channel %s: Discord rejected the commands", self._channel.log_id)

    @property
    def taken_seq(self) -> int | None:
        """Return the last processed sequence number, for the heartbeat."""
        return self._progress.point.seq if self._progress is not None else None


class _Heartbeats:
    """Tells Discord that we are there, and notices when it no longer is."""

    def __init__(
        self, gateway: DiscordGateway, socket: aiohttp.ClientWebSocketResponse, interval_s: float
    ) -> None:
        self.is_answered = True
        self._gateway = gateway
        self._socket = socket
        self._interval_s = interval_s

    async def beat(self) -> None:
        """One heartbeat."""
        await say(self._socket, {"op": HEARTBEAT, "d": self._gateway.taken_seq})

    async def run(self, clock: Clock) -> None:
        """Beat until cancelled; a socket on which no answer came is closed, which ends its reader."""
        await clock.sleep_s(self._interval_s / 2)
        while self.is_answered:
            self.is_answered = False
            await self.beat()
            await clock.sleep_s(self._interval_s)
        await self._socket.close(code=LOST)


@asynccontextmanager
async def _beating(beats: _Heartbeats, clock: Clock) -> AsyncGenerator[_Heartbeats]:
    task = asyncio.create_task(beats.run(clock))
    try:
        yield beats
    finally:
        task.cancel()
        await asyncio.wait({task})


async def say(socket: aiohttp.ClientWebSocketResponse, payload: Mapping[str, Any]) -> None:
    """Send an opcode; one that can't be sent is noticed by who reads."""
    try:
        await socket.send_str(json.dumps(payload))
    except (ConnectionError, aiohttp.ClientError):
        _log.debug("the gateway's socket is closed")


async def _payload(socket: aiohttp.ClientWebSocketResponse) -> _Frame | None:
    """Return Discord's next frame; None if the socket is closed. Invalid frames are ignored.

    Closing the connection instead would make Discord resend them on every resume.
    """
    while (message := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
        try:
            return msgspec.convert(json.loads(message.data), _Frame)
        except (ValueError, RecursionError) as error:
            _log.warning("ignored an invalid frame from Discord: %s", type(error).__name__)
    return None


def _closed(socket: aiohttp.ClientWebSocketResponse) -> _Ended:
    """Classify the end of a socket."""
    code = socket.close_code or 0
    if code in _FINAL:
        why, hint = _FINAL[code]
        return _Ended(why, hint, can_resume=False, wait_s=FINAL_S)
    return _Ended(f"Discord closed the connection ({code})", can_resume=code not in NO_RESUME, usual=True)


def _not_reached(reply: DiscordReply) -> _Ended:
    assert not isinstance(reply, DiscordResult)
    if not isinstance(reply, DiscordFailure):
        return _Ended(f"Can't reach Discord: {reply.why}")
    if reply.status == UNAUTHORIZED:
        return _Ended("The token is wrong", _TOKEN_HINT, wait_s=BACKOFF_LAST_S)
    return _Ended(f"Discord rejected the connection: {reply.text}", wait_s=reply.retry_after_s)
