"""Gets updates from Telegram by long polling; an update is acknowledged after it is on the log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.messages import UNREADABLE, Unanswered, shaped
from holdfast.features.channels.telegram.api import TelegramApi, TelegramReply, TelegramResult
from holdfast.features.channels.telegram.connecting import TelegramConnection
from holdfast.features.channels.telegram.updates import ALLOWED, update_id_of

POLL_S = 25
ANSWER_S = POLL_S + 15.0


class TelegramPolling:
    """Reads the bot's updates until cancelled. Failures are logged and retried."""

    def __init__(
        self,
        api: TelegramApi,
        connection: TelegramConnection,
        *,
        accept: Callable[[Arrival], Awaitable[None]],
    ) -> None:
        self._api = api
        self._connection = connection
        self._accept = accept

    async def run(self) -> None:
        """Connect and read, again and again."""
        failures = 0
        while True:
            reply = await self._connect()
            offset, has_polled = 0, False
            while isinstance(reply, TelegramResult):
                accepted = await self._taken(reply.value, offset)
                if accepted is None:
                    reply = Unanswered(UNREADABLE)
                    break
                offset = accepted
                failures = 0 if has_polled else failures
                has_polled = True
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

    async def _taken(self, updates: Any, offset: int) -> int | None:
        """Take the updates, those of one chat in order; the offset that acknowledges them all.

        None if they can't be read, or none has a number: they would come again at once, for ever.
        """
        updates = shaped(updates, list[Any])
        if updates is None:
            return None
        chats: dict[str, list[Arrival]] = {}
        for update in sorted(updates, key=update_id_of):
            arrival = self._connection.read(update)
            if arrival is not None:
                chats.setdefault(arrival.chat, []).append(arrival)
        async with asyncio.TaskGroup() as tasks:
            for arrivals in chats.values():
                tasks.create_task(self._in_order(arrivals))
        if not updates:
            return 0  # all before it is acknowledged, and after a quiet week numbers may begin anywhere
        newest = max(update_id_of(one) for one in updates)
        return max(offset, newest + 1) if newest else None

    async def _in_order(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            await self._accept(arrival)
