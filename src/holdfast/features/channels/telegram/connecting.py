"""Finds out who the bot is, and says on the log whether Telegram works; polling and webhooks share it."""

import logging

import msgspec

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.messages import UNREADABLE, Unanswered, shaped
from holdfast.features.channels.telegram.api import (
    TelegramApi,
    TelegramFailure,
    TelegramReply,
    TelegramResult,
)
from holdfast.features.channels.telegram.updates import read_update
from holdfast.features.channels.texts import COMMANDS
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
BACKOFF_FIRST_S = 1.0
BACKOFF_LAST_S = 60.0
UNAUTHORIZED, NOT_FOUND, CONFLICT = 401, 404, 409
_HINTS = {
    UNAUTHORIZED: "The token is invalid. Copy it from @BotFather and restart the server.",
    NOT_FOUND: "The token is invalid. Copy it from @BotFather and restart the server.",
    CONFLICT: "Another program is polling this bot. Stop it: Telegram allows only one reader.",
}


class Bot(msgspec.Struct):
    """A bot's account on Telegram."""

    id: int
    username: str = ""


class TelegramConnection:
    """One bot, and whether it can be reached."""

    def __init__(self, api: TelegramApi, log: ChannelLog, clock: Clock) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self._bot_id = 0
        self._bot_name = ""

    async def introduce(self) -> TelegramReply:
        """Ask who we are, and tell people's programs which commands there are."""
        me = await self._api.call("getMe")
        if not isinstance(me, TelegramResult):
            return me
        bot = shaped(me.value, Bot)
        if bot is None:
            return Unanswered(UNREADABLE)
        self._bot_id, self._bot_name = bot.id, bot.username
        commands = [{"command": name, "description": what} for name, what in COMMANDS.items()]
        await self._api.call("setMyCommands", {"commands": commands})
        return me

    def read(self, update: object) -> Arrival | None:
        """Parse an update; None if it's irrelevant."""
        return read_update(update, bot_id=self._bot_id, bot_name=self._bot_name)

    async def works(self) -> None:
        """Say that it works, unless that is known already."""
        await self._channel.connected(self._clock.now_ms(), self._bot_name)

    async def failed(self, reply: TelegramReply) -> None:
        """Say what the trouble is with a request."""
        assert not isinstance(reply, TelegramResult)
        is_answer = isinstance(reply, TelegramFailure)
        why = reply.text if is_answer else f"Can't reach Telegram: {reply.why}"
        await self.is_in_trouble(why, _HINTS.get(reply.code, "") if is_answer else "")

    async def is_in_trouble(self, why: str, hint: str) -> None:
        """Say what the trouble is, once for as long as it lasts."""
        await self._channel.failed(self._clock.now_ms(), why, hint)

    async def rest(self, failures: int) -> None:
        """Wait before the next attempt, longer each time."""
        await self._clock.sleep_s(min(BACKOFF_FIRST_S * 2 ** min(failures - 1, 6), BACKOFF_LAST_S))
