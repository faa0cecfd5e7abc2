"""Socket Mode: gets what Slack tells of, and acknowledges it after it is on the log."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import aiohttp

from holdfast import events as e
from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.chat_locks import ChatLocks
from holdfast.channels.incoming import Arrival, ButtonPress, MessageDeletion
from holdfast.channels.owner import Take
from holdfast.channels.slack.api import SlackApi, SlackDone, SlackFailure, SlackReply
from holdfast.channels.slack.catching_up import CatchingUp
from holdfast.channels.slack.events import read_envelope
from holdfast.channels.written import UNREADABLE, Unanswered, Unwritten, failure_words, shaped
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
HEARTBEAT_S = 15.0
HELLO_S = 30.0
LEAVE_S = 15.0  # how long a socket that is being replaced is still read
BACKOFF_FIRST_S = 1.0
BACKOFF_LAST_S = 60.0
SOON_S = 5.0
AT_ONCE_MAX = 64  # envelopes that are being taken; no more are read meanwhile
NAMES_MAX = 2_000
_CHECK_BOT = "Check `token`: it is the bot token, which begins with xoxb-. Then restart the server."
_CHECK_APP = "Check `app_token`: it is the app-level token, which begins with xapp-. Then restart the server."
_TOKENS = "`token` begins with xoxb-, and `app_token` with xapp-. Correct them, and restart the server."
_SCOPE = "Add the scopes that the documentation lists to your app, and install it again."
_MODE = "Turn on Socket Mode in your app's settings."
_HINTS: Mapping[str, str] = {
    "missing_scope": _SCOPE,
    "no_permission": _SCOPE,
    "link_disabled": _MODE,
    "socket_mode_not_enabled": _MODE,
    "account_inactive": "The app was removed from the workspace. Install it again, and use its new token.",
    "token_revoked": "The token was revoked. Install the app again, and use its new token.",
}
_Socket: TypeAlias = aiohttp.ClientWebSocketResponse


class _Trouble(Exception):
    """The connection can't be made or is gone; the text says why, and `hint` what to do."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


class SlackSocket:
    """Reads the app's sockets until cancelled; trouble is on the log, and passes by itself."""

    def __init__(self, api: SlackApi, log: ChannelLog, clock: Clock, *, take: Take) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self._take = take
        self._bot = ""
        self._account = ""
        self._names: OrderedDict[str, str] = OrderedDict()
        self._locks = ChatLocks()
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._read_now: set[_Socket] = set()
        self._lasting: set[_Socket] = set()  # those that Slack doesn't want replaced
        self._changed = asyncio.Event()  # a socket ended, or is to be replaced
        self._catching_up = CatchingUp(api, log.state, self._locks, clock=clock, take=self._named)
        self._failures = 0
        self._opened_s: float | None = None

    async def run(self) -> None:
        """Keep a socket open; one that Slack wants replaced is read until the new one is there."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                if self._lasting:
                    await self._changed.wait()
                    continue
                if pause_s := self._pause_s():
                    await self._clock.sleep_s(pause_s)
                try:
                    socket = await self._connect()
                except _Trouble as trouble:
                    await self._failed(trouble)
                    continue
                has_gap = not self._read_now
                if has_gap:  # before anything is read, so that nothing passes what came before it
                    self._catching_up.begin(self._bot)
                self._read_now.add(socket)
                self._lasting.add(socket)
                tasks.create_task(self._read(socket), name="read Slack's socket")
                await self._connected()
                if has_gap:
                    tasks.create_task(self._catch_up(), name="catch up with Slack")

    async def _connect(self) -> _Socket:
        """A socket that has said hello; raises _Trouble."""
        if self._api.trouble:
            raise _Trouble(self._api.trouble, _TOKENS)
        me = _insist(await self._api.call("auth.test"), _CHECK_BOT)
        self._bot, self._account = str(me.get("user_id") or ""), str(me.get("user") or "")
        if not self._bot:
            raise _Trouble(f"Slack can't be reached: {UNREADABLE}")
        opened = _insist(await self._api.open_connection(), _CHECK_APP)
        address = str(opened.get("url") or "")
        if not address:
            raise _Trouble(f"Slack can't be reached: {UNREADABLE}")
        try:
            async with asyncio.timeout(HELLO_S):
                socket = await self._api.socket(address, heartbeat_s=HEARTBEAT_S)
                frame = _decoded(await socket.receive())
        except TimeoutError as error:
            raise _Trouble("Slack's socket doesn't answer") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _Trouble(f"Slack's socket can't be opened: {failure_words(error)}") from error
        if frame.get("type") != "hello":
            await socket.close()
            reason = str(frame.get("reason", "the socket was closed"))
            raise _Trouble(reason, _HINTS.get(reason, ""))
        return socket

    def _pause_s(self) -> float:
        """How long to wait before the next socket, also after one that ended soon."""
        if self._failures:
            return min(BACKOFF_FIRST_S * 2 ** min(self._failures - 1, 6), BACKOFF_LAST_S)
        is_soon = self._opened_s is not None and self._clock.steady_s() - self._opened_s < SOON_S
        return BACKOFF_FIRST_S if is_soon else 0.0

    async def _connected(self) -> None:
        self._failures, self._opened_s = 0, self._clock.steady_s()
        state = self._channel.state
        if not state.is_connected or state.account != self._account:
            await self._channel.append(e.ChannelConnected(at_ms=self._clock.now_ms(), account=self._account))

    async def _catch_up(self) -> None:
        """Take what was said meanwhile; what Slack doesn't list is said to be missed."""
        await self._catching_up.run()
        if missed := self._catching_up.missed():
            now_ms = self._clock.now_ms()
            connected = e.ChannelConnected(at_ms=now_ms, account=self._account, missed=missed)
            await self._channel.append(connected)

    async def _read(self, socket: _Socket) -> None:
        """Take what comes until the socket ends; each envelope is acknowledged once it is taken."""
        async with asyncio.TaskGroup() as tasks:
            leaving: asyncio.Task[None] | None = None
            try:
                while frame := await self._next(socket):
                    if frame.get("type") == "disconnect" and leaving is None:
                        leaving = tasks.create_task(_leave(socket, self._clock))
                        self._lasting.discard(socket)
                        self._changed.set()
                    elif "envelope_id" in frame:
                        await self._room.acquire()
                        tasks.create_task(self._envelope(socket, frame))
            finally:
                if leaving is not None:
                    leaving.cancel()
                self._read_now.discard(socket)
                self._lasting.discard(socket)
                self._changed.set()
                await socket.close()

    async def _next(self, socket: _Socket) -> Mapping[str, Any] | None:
        """The next frame; None when the socket has ended."""
        while True:
            try:
                message = await socket.receive()
            except (aiohttp.ClientError, OSError, RuntimeError):
                return None
            if message.type is aiohttp.WSMsgType.TEXT:
                return _decoded(message) or {"type": "unknown"}
            if message.type is not aiohttp.WSMsgType.BINARY:
                return None

    async def _envelope(self, socket: _Socket, frame: Mapping[str, Any]) -> None:
        try:
            arrival = read_envelope(str(frame.get("type")), frame.get("payload"), bot=self._bot)
            if arrival is not None:
                await self._taken(arrival)
            await _acknowledge(socket, str(frame["envelope_id"]))
        finally:
            self._room.release()

    async def _taken(self, arrival: Arrival) -> None:
        """Take it, after what came before it in its conversation."""
        conversation = "" if isinstance(arrival, ButtonPress) else arrival.conversation
        async with self._locks.of(conversation or arrival.chat):
            await self._catching_up.first(conversation)
            await self._named(arrival)

    async def _named(self, arrival: Arrival) -> None:
        """Take it, with the name of the person."""
        if arrival.key in self._channel.state.keys:
            return
        if not isinstance(arrival, MessageDeletion):
            arrival = replace(arrival, name=await self._name_of(arrival.user))
        await self._take(arrival)

    async def _name_of(self, user: str) -> str:
        """How people call this person; their id if Slack doesn't say."""
        if user in self._names:
            self._names.move_to_end(user)
            return self._names[user]
        reply = await self._api.call("users.info", {"user": user})
        if not isinstance(reply, SlackDone):
            return user
        found = shaped(reply.value.get("user"), dict[str, Any]) or {}
        profile = shaped(found.get("profile"), dict[str, Any]) or {}
        names = (profile.get("display_name"), profile.get("real_name"), found.get("name"), user)
        self._names[user] = next(str(name) for name in names if name)
        if len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)
        return self._names[user]

    async def _failed(self, trouble: _Trouble) -> None:
        """Say what the trouble is, once for as long as it lasts; not while a socket still works."""
        self._failures += 1
        if not self._read_now and self._channel.state.trouble != str(trouble):
            _log.warning("channel %s: %s %s", self._channel.log_id, trouble, trouble.hint)
            failed = e.ChannelFailed(at_ms=self._clock.now_ms(), why=str(trouble), hint=trouble.hint)
            await self._channel.append(failed)


async def _leave(socket: _Socket, clock: Clock) -> None:
    """Close a socket that was replaced, if Slack doesn't."""
    await clock.sleep_s(LEAVE_S)
    await socket.close()


async def _acknowledge(socket: _Socket, envelope_id: str) -> None:
    """Tell Slack that we have it; if that fails, it comes again and becomes nothing."""
    try:
        await socket.send_str(json.dumps({"envelope_id": envelope_id}))
    except (aiohttp.ClientError, OSError, RuntimeError) as error:
        _log.info("an envelope could not be acknowledged: %s", error)


def _insist(reply: SlackReply, hint: str) -> Mapping[str, Any]:
    """What Slack returned; raises _Trouble."""
    match reply:
        case SlackDone(value=value):
            return value
        case SlackFailure(error=error):
            raise _Trouble(error, _HINTS.get(error, "" if error == "ratelimited" else hint))
        case Unwritten(why=why) | Unanswered(why=why):
            raise _Trouble(f"Slack can't be reached: {why}")


def _decoded(message: aiohttp.WSMessage) -> Mapping[str, Any]:
    if message.type is not aiohttp.WSMsgType.TEXT:
        return {}
    try:
        found: Any = json.loads(message.data)
    except (ValueError, RecursionError):
        _log.warning("a frame of Slack's can't be read, and is ignored")
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
