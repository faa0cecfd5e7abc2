"""Gets updates from Telegram by long polling; an update is acknowledged after it is on the log.

Gets updates from Telegram by a webhook: Telegram calls, and is answered after the update is on the log.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.http.bodies import ChannelUpdateAccepted
from holdfast.features.channels.http.webhook_endpoints import BadUpdate, WebhookEndpoints
from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.messages import UNREADABLE, Unanswered, shaped
from holdfast.features.channels.telegram.api import TelegramApi, TelegramReply, TelegramResult
from holdfast.features.channels.telegram.connecting import TelegramConnection
from holdfast.features.channels.telegram.updates import ALLOWED, update_id_of
from holdfast.interfaces.clock import Clock

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


LOOK_S = 30.0
CALLS_AT_ONCE = 20
CANT_CALL = "Telegram can't deliver to {url}: {why}"
HINT = "Check that the URL is public, has a valid certificate and points to this server."


class WebhookInfo(msgspec.Struct):
    """Telegram's webhook status."""

    url: str = ""
    last_error_message: str = ""
    pending_update_count: int = 0


class TelegramWebhook:
    """Has Telegram call until cancelled. Whether it can is asked again and again."""

    def __init__(
        self,
        api: TelegramApi,
        connection: TelegramConnection,
        clock: Clock,
        *,
        url: str,
        secret: str,
    ) -> None:
        self._api = api
        self._connection = connection
        self._clock = clock
        self._url = url
        self._secret = secret
        self._locks = ChatLocks()

    async def run(
        self, endpoints: WebhookEndpoints, name: str, accept: Callable[[Arrival], Awaitable[None]]
    ) -> None:
        """Open the door of the channel, have Telegram know it, and look after both."""

        async def deliver(body: bytes) -> ChannelUpdateAccepted:
            await self.deliver(body, accept)
            return ChannelUpdateAccepted(accepted=True)

        failures = 0
        while True:
            reply = await self._connect()
            if isinstance(reply, TelegramResult):
                with endpoints.opened(name, deliver):
                    while isinstance(reply, TelegramResult):
                        failures = 0
                        await self._say(reply.value)
                        await self._clock.sleep_s(LOOK_S)
                        reply = await self._look()
            failures += 1
            await self._connection.failed(reply)
            await self._connection.rest(failures)

    async def deliver(self, body: bytes, accept: Callable[[Arrival], Awaitable[None]]) -> None:
        """Take an update, those of one chat one by one; when this returns, Telegram may forget it."""
        arrival = self._connection.read(_update_of(body))
        if arrival is not None:
            async with self._locks.of(arrival.chat):
                await accept(arrival)

    async def _connect(self) -> TelegramReply:
        """Have Telegram call us; what waits there is not dropped."""
        me = await self._connection.introduce()
        return await self._set() if isinstance(me, TelegramResult) else me

    async def _set(self) -> TelegramReply:
        wanted = {
            "url": self._url,
            "secret_token": self._secret,
            "allowed_updates": ALLOWED,
            "max_connections": CALLS_AT_ONCE,
            "drop_pending_updates": False,
        }
        done = await self._api.call("setWebhook", wanted)
        return await self._info() if isinstance(done, TelegramResult) else done

    async def _look(self) -> TelegramReply:
        """Check the webhook, and set it again if another program removed it."""
        info = await self._info()
        if isinstance(info, TelegramResult) and info.value.url != self._url:
            return await self._set()
        return info

    async def _info(self) -> TelegramReply:
        """Return Telegram's WebhookInfo."""
        reply = await self._api.call("getWebhookInfo")
        if not isinstance(reply, TelegramResult):
            return reply
        info = shaped(reply.value, WebhookInfo)
        return TelegramResult(info) if info is not None else Unanswered(UNREADABLE)

    async def _say(self, info: WebhookInfo) -> None:
        """Say whether updates get through: an error counts while updates wait behind it."""
        why = info.last_error_message
        if why and info.pending_update_count:
            await self._connection.is_in_trouble(CANT_CALL.format(url=self._url, why=why), HINT)
        else:
            await self._connection.works()


def _update_of(body: bytes) -> Any:
    """The update; raises BadUpdate."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadUpdate("The body isn't JSON") from error
