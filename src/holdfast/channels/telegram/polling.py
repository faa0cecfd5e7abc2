"""Gets updates from Telegram by long polling; an update is acknowledged after it is on the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast import events as e
from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.incoming import Arrival
from holdfast.channels.telegram.api import TelegramApi, TelegramFailure, TelegramReply, TelegramResult
from holdfast.channels.telegram.updates import ALLOWED, read_update, update_id_of
from holdfast.channels.words import COMMANDS
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
POLL_S = 25
ANSWER_S = POLL_S + 15.0
BACKOFF_FIRST_S = 1.0
BACKOFF_LAST_S = 60.0
UNAUTHORIZED, NOT_FOUND, CONFLICT = 401, 404, 409
_HINTS = {
    UNAUTHORIZED: "The token is wrong. Get the right one from @BotFather and restart the server.",
    NOT_FOUND: "The token is wrong. Get the right one from @BotFather and restart the server.",
    CONFLICT: "Another program uses the same bot. Stop it: Telegram lets only one read its messages.",
}


class TelegramPolling:
    """Reads the bot's updates until cancelled; trouble is on the log, and passes by itself."""

    def __init__(
        self, api: TelegramApi, log: ChannelLog, clock: Clock, *, take: Callable[[Arrival], Awaitable[None]]
    ) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self._take = take
        self._bot_id = 0
        self._bot_name = ""

    async def run(self) -> None:
        """Connect and read, again and again."""
        failures = 0
        while True:
            reply = await self._connect()
            offset = 0
            while isinstance(reply, TelegramResult):
                failures = 0
                offset = await self._taken(reply.value, offset)
                reply = await self._api.call(
                    "getUpdates",
                    {"timeout": POLL_S, "allowed_updates": ALLOWED, **({"offset": offset} if offset else {})},
                    answer_s=ANSWER_S,
                )
            failures += 1
            await self._failed(reply)
            await self._clock.sleep_s(min(BACKOFF_FIRST_S * 2 ** min(failures - 1, 6), BACKOFF_LAST_S))

    async def _connect(self) -> TelegramReply:
        """Find out who we are. A webhook is removed, and what waits for us is not dropped."""
        me = await self._api.call("getMe")
        if not isinstance(me, TelegramResult):
            return me
        self._bot_id = int(me.value["id"])
        self._bot_name = str(me.value.get("username", ""))
        removed = await self._api.call("deleteWebhook", {"drop_pending_updates": False})
        if not isinstance(removed, TelegramResult):
            return removed
        commands = [{"command": name, "description": what} for name, what in COMMANDS.items()]
        await self._api.call("setMyCommands", {"commands": commands})
        state = self._channel.state
        if not state.is_connected or state.account != self._bot_name:
            await self._channel.append(e.ChannelConnected(at_ms=self._clock.now_ms(), account=self._bot_name))
        return TelegramResult([])

    async def _taken(self, updates: Sequence[Any], offset: int) -> int:
        """Take the updates, those of one chat in order; the offset that acknowledges them all."""
        chats: dict[str, list[Arrival]] = {}
        for update in sorted(updates, key=update_id_of):
            arrival = read_update(update, bot_id=self._bot_id, bot_name=self._bot_name)
            if arrival is not None:
                chats.setdefault(arrival.chat, []).append(arrival)
        async with asyncio.TaskGroup() as tasks:
            for arrivals in chats.values():
                tasks.create_task(self._in_order(arrivals))
        return max([offset, *(update_id_of(one) + 1 for one in updates)])

    async def _in_order(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            await self._take(arrival)

    async def _failed(self, reply: TelegramReply) -> None:
        """Say what the trouble is, once for as long as it lasts."""
        assert not isinstance(reply, TelegramResult)
        is_answer = isinstance(reply, TelegramFailure)
        why = reply.text if is_answer else f"Telegram can't be reached: {reply.why}"
        hint = _HINTS.get(reply.code, "") if is_answer else ""
        state = self._channel.state
        if state.trouble != why:
            _log.warning("channel %s: %s %s", self._channel.log_id, why, hint)
            await self._channel.append(e.ChannelFailed(at_ms=self._clock.now_ms(), why=why, hint=hint))
