"""Socket Mode: gets what Slack tells of, and acknowledges it after it is on the log."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, TypeAlias

import aiohttp

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.messages import UNREADABLE, failure_text
from holdfast.features.channels.owner import Accept
from holdfast.features.channels.slack.api import SlackApi
from holdfast.features.channels.slack.connecting import (
    BACKOFF_FIRST_S,
    CHECK_APP,
    HINTS,
    SlackConnection,
    SlackTrouble,
    insist,
    pause_s,
)
from holdfast.features.channels.slack.events import read_envelope
from holdfast.features.channels.slack.intake import SlackIntake
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
HEARTBEAT_S = 15.0
HELLO_S = 30.0
LEAVE_S = 15.0  # how long a socket that is being replaced is still read
SOON_S = 5.0
AT_ONCE_MAX = 64  # envelopes that are being taken; no more are read meanwhile
_Socket: TypeAlias = aiohttp.ClientWebSocketResponse


class SlackSocket:
    """Reads the app's sockets until cancelled. Failures are logged and retried."""

    def __init__(self, api: SlackApi, log: ChannelLog, clock: Clock, *, accept: Accept) -> None:
        self._api = api
        self._clock = clock
        self._connection = SlackConnection(api, log, clock)
        self._intake = SlackIntake(api, log, clock, connection=self._connection, accept=accept)
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._read_now: set[_Socket] = set()
        self._lasting: set[_Socket] = set()  # those that Slack doesn't want replaced
        self._changed = asyncio.Event()  # a socket ended or must be replaced
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
                if wait_s := self._pause_s():
                    await self._clock.sleep_s(wait_s)
                try:
                    socket = await self._connect()
                except SlackTrouble as trouble:
                    await self._failed(trouble)
                    continue
                has_gap = not self._read_now
                if has_gap:  # before anything is read, so that nothing passes what came before it
                    self._intake.begin()
                self._read_now.add(socket)
                self._lasting.add(socket)
                tasks.create_task(self._read(socket), name="read Slack's socket")
                self._failures, self._opened_s = 0, self._clock.steady_s()
                await self._connection.works()
                if has_gap:
                    tasks.create_task(self._intake.catch_up(), name="catch up with Slack")

    async def _connect(self) -> _Socket:
        """A socket that has said hello; raises SlackTrouble."""
        await self._connection.introduce()
        opened = insist(await self._api.open_connection(), CHECK_APP)
        address = str(opened.get("url") or "")
        if not address:
            raise SlackTrouble(f"Can't reach Slack: {UNREADABLE}")
        try:
            async with asyncio.timeout(HELLO_S):
                socket = await self._api.socket(address, heartbeat_s=HEARTBEAT_S)
                frame = _decoded(await socket.receive())
        except TimeoutError as error:
            raise SlackTrouble("Slack's socket isn't responding") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SlackTrouble(f"Can't open Slack's socket: {failure_text(error)}") from error
        if frame.get("type") != "hello":
            await socket.close()
            reason = str(frame.get("reason", "the socket was closed"))
            raise SlackTrouble(reason, HINTS.get(reason, ""))
        return socket

    def _pause_s(self) -> float:
        """How long to wait before the next socket, also after one that ended soon."""
        if self._failures:
            return pause_s(self._failures)
        is_soon = self._opened_s is not None and self._clock.steady_s() - self._opened_s < SOON_S
        return BACKOFF_FIRST_S if is_soon else 0.0

    async def _read(self, socket: _Socket) -> None:
        """Accept what comes until the socket ends; each envelope is acknowledged once it is accepted."""
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
            kind, payload = str(frame.get("type")), frame.get("payload")
            arrival = read_envelope(kind, payload, us=self._connection.us)
            if arrival is not None:
                await self._intake.accept(arrival)
            await _acknowledge(socket, str(frame["envelope_id"]))
        finally:
            self._room.release()

    async def _failed(self, trouble: SlackTrouble) -> None:
        """Say what the trouble is; not while a socket still works."""
        self._failures += 1
        if not self._read_now:
            await self._connection.failed(trouble)


async def _leave(socket: _Socket, clock: Clock) -> None:
    """Close a socket that was replaced, if Slack doesn't."""
    await clock.sleep_s(LEAVE_S)
    await socket.close()


async def _acknowledge(socket: _Socket, envelope_id: str) -> None:
    """Tell Slack that we have it; if that fails, it comes again and becomes nothing."""
    try:
        await socket.send_str(json.dumps({"envelope_id": envelope_id}))
    except (aiohttp.ClientError, OSError, RuntimeError) as error:
        _log.info("couldn't acknowledge an envelope: %s", error)


def _decoded(message: aiohttp.WSMessage) -> Mapping[str, Any]:
    if message.type is not aiohttp.WSMsgType.TEXT:
        return {}
    try:
        found: Any = json.loads(message.data)
    except (ValueError, RecursionError):
        _log.warning("ignored an invalid frame from Slack")
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
