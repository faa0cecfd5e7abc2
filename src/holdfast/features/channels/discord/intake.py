"""Processes gateway events in order per chat, after missed messages from the chat's history."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.discord.api import DiscordApi, DiscordFailure, DiscordResult, messages_of
from holdfast.features.channels.discord.carrier import Progress
from holdfast.features.channels.discord.clicks import Clicks
from holdfast.features.channels.discord.updates import (
    message_id_of,
    read_deletions,
    read_interaction,
    read_message,
    shortly_before,
)
from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.messages import UNREADABLE
from holdfast.interfaces.clock import Clock

WAITING_MAX = 1_000  # events that wait to be taken; while there are more, the socket isn't read
HISTORIES_AT_ONCE = 4
PAGE, PAGES_MAX = 100, 50
NAMED_MAX = 5
BACKOFF_FIRST_S, BACKOFF_LAST_S = 1.0, 60.0
TOO_MANY_REQUESTS, UNAUTHORIZED = 429, 401

Accept: TypeAlias = Callable[[Arrival], Awaitable[None]]
Work: TypeAlias = Callable[[], Awaitable[None]]


class _Job(Struct, frozen=True):
    """Something to take, and the event that it is of."""

    progress: Progress
    seq: int
    work: Work


class _Histories(Struct):
    """Those that are read after a gap: how many are left, and why some can't be had, by chat."""

    left: int
    unread: dict[str, str] = field(default_factory=dict[str, str])

    def missed(self) -> str:
        """Describe messages that may be lost."""
        places = ", ".join(list(self.unread)[:NAMED_MAX])
        whys = ", ".join(dict.fromkeys(self.unread.values()))
        number = len(self.unread)
        return f"messages in {number} chats ({places}) whose history Discord didn't return: {whys}"


class DiscordIntake:
    """One task for each chat in which something happened; it outlives the socket that told of it."""

    def __init__(
        self, api: DiscordApi, log: ChannelLog, clock: Clock, *, accept: Accept, clicks: Clicks
    ) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self._accept = accept
        self._clicks = clicks
        self._jobs: dict[str, deque[_Job]] = {}
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._reading = asyncio.Semaphore(HISTORIES_AT_ONCE)
        self._tasks: asyncio.TaskGroup | None = None
        self.changed = asyncio.Event()  # a job is done

    async def run(self) -> None:
        """Accept until cancelled; raises what the store raises."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.get_running_loop().create_future()

    async def told(self, name: str, data: Any, *, progress: Progress, seq: int) -> None:
        """Queue an event. Waits while the queue is full."""
        interaction = read_interaction(data) if name == "INTERACTION_CREATE" else None
        arrivals = [interaction.arrival] if interaction is not None else self._arrivals(name, data)
        progress.begin(seq, len(arrivals))
        if not arrivals:
            self.changed.set()
        if interaction is not None:
            self._clicks.came(interaction)
        for arrival in arrivals:
            await self._room.acquire()

            async def work(arrival: Arrival = arrival) -> None:
                try:
                    await self._accept(arrival)
                finally:
                    self._room.release()
                if interaction is not None:
                    await self._clicks.taken(interaction)

            self._add(arrival.chat, _Job(progress, seq, work))

    def _arrivals(self, name: str, data: Any) -> Sequence[Arrival]:
        match name:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                message = read_message(data, bot_id=self._api.bot_id, is_edit=name == "MESSAGE_UPDATE")
                return [message] if message is not None else []
            case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                return read_deletions(data)
            case _:
                return []

    def catch_up(self, progress: Progress, seq: int) -> None:
        """Read the history of every known chat, most recently active first.

        New events wait behind it, chat by chat.
        """
        known = list(reversed(self._channel.state.last_taken.items()))
        histories = _Histories(len(known))
        progress.begin(seq, len(known))
        for channel, last in known:

            async def work(channel: str = channel, after: str = last.platform_id) -> None:
                if why := await self._history(channel, shortly_before(after)):
                    histories.unread[channel] = why
                histories.left -= 1
                if histories.unread and not histories.left:
                    await self._missed(histories.missed())

            self._add(channel, _Job(progress, seq, work))
        self.changed.set()

    def _add(self, chat: str, job: _Job) -> None:
        assert self._tasks is not None, "it runs"
        known = self._jobs.get(chat)
        if known is not None:
            known.append(job)
            return
        self._jobs[chat] = deque([job])
        self._tasks.create_task(self._chat(chat), name=f"take from {chat}")

    async def _chat(self, chat: str) -> None:
        jobs = self._jobs[chat]
        while jobs:
            job = jobs[0]
            await job.work()
            jobs.popleft()
            job.progress.end(job.seq)
            self.changed.set()
        del self._jobs[chat]

    async def _missed(self, what: str) -> None:
        """Put on the log what may be lost."""
        await self._channel.connected(self._clock.now_ms(), self._channel.state.account, missed=what)

    async def _history(self, channel: str, after: str) -> str:
        """Accept what was written since, the oldest first; returns why some of it can't be had."""
        for _ in range(PAGES_MAX):
            page = await self._page(channel, after)
            if isinstance(page, str):
                return page
            for message in reversed(page):
                arrival = read_message(message, bot_id=self._api.bot_id)
                if arrival is not None:
                    await self._accept(arrival)
                after = message_id_of(message) or after
            if len(page) < PAGE:
                return ""
        return f"there are more than {PAGE * PAGES_MAX:,} messages"

    async def _page(self, channel: str, after: str) -> list[Any] | str:
        """The next messages, the newest first; or why Discord doesn't give them out."""
        failures = 0
        while True:
            async with self._reading:
                reply = await self._api.call(
                    messages_of(channel, method="GET"), query={"after": after, "limit": str(PAGE)}
                )
            wait_s = min(BACKOFF_FIRST_S * 2 ** min(failures, 6), BACKOFF_LAST_S)
            match reply:
                case DiscordResult(value=value) if isinstance(value, list):
                    return cast("list[Any]", value)
                case DiscordResult():
                    return UNREADABLE
                case DiscordFailure(status=status) as failure if status == TOO_MANY_REQUESTS:
                    wait_s = failure.retry_after_s or wait_s
                case DiscordFailure(status=status) if status != UNAUTHORIZED:
                    return reply.text  # the channel is gone, or closed to us
                case _:
                    failures += 1
            await self._clock.sleep_s(wait_s)
