"""Gets updates from Telegram by long polling; an update is acknowledged after it is on the log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from holdfast.channels.incoming import Arrival
from holdfast.channels.telegram.api import TelegramApi, TelegramReply, TelegramResult
from holdfast.channels.telegram.connecting import TelegramConnection
from holdfast.channels.telegram.updates import ALLOWED, update_id_of
from holdfast.channels.written import UNREADABLE, Unanswered

POLL_S = 25
ANSWER_S = POLL_S + 15.0


class TelegramPolling:
    """Reads the bot's updates until cancelled; trouble is on the log, and passes by itself."""

    def __init__(
        self,
        api: TelegramApi,
        connection: TelegramConnection,
        *,
        take: Callable[[Arrival], Awaitable[None]],
    ) -> None:
        self._api = api
        self._connection = connection
        self._take = take

    async def run(self) -> None:
        """Connect and read, again and again."""
        failures = 0
        while True:
            reply = await self._connect()
            offset = 0
            while isinstance(reply, TelegramResult):
                updates = reply.value
                if not isinstance(updates, list):
                    reply = Unanswered(UNREADABLE)
                    break
                before, offset = offset, await self._taken(cast("list[Any]", updates), offset)
                if updates and offset == before:  # none has a number, so that all would come again at once
                    reply = Unanswered(UNREADABLE)
                    break
                failures = 0
                reply = await self._api.call(
                    "getUpdates",
                    {"timeout": POLL_S, "allowed_updates": ALLOWED, **({"offset": offset} if offset else {})},
                    answer_s=ANSWER_S,
                )
            failures += 1
            await self._connection.failed(reply)
            await self._connection.rest(failures)

    async def _connect(self) -> TelegramReply:
        """Find out who we are. A webhook is removed, and what waits for us is not dropped."""
        me = await self._connection.introduce()
        if not isinstance(me, TelegramResult):
            return me
        removed = await self._api.call("deleteWebhook", {"drop_pending_updates": False})
        if not isinstance(removed, TelegramResult):
            return removed
        await self._connection.works()
        return TelegramResult([])

    async def _taken(self, updates: Sequence[Any], offset: int) -> int:
        """Take the updates, those of one chat in order; the offset that acknowledges them all."""
        chats: dict[str, list[Arrival]] = {}
        for update in sorted(updates, key=update_id_of):
            arrival = self._connection.read(update)
            if arrival is not None:
                chats.setdefault(arrival.chat, []).append(arrival)
        async with asyncio.TaskGroup() as tasks:
            for arrivals in chats.values():
                tasks.create_task(self._in_order(arrivals))
        return max([offset, *(update_id_of(one) + 1 for one in updates)])

    async def _in_order(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            await self._take(arrival)
