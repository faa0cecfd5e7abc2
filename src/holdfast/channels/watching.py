"""Watches the sessions of a channel's chats, and intends what there is to say about them."""

import asyncio
import logging

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.channels.answers import Dialect, awaited_in, due, settled
from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.deps import ChannelDeps
from holdfast.channels.notices import notices
from holdfast.channels.trouble import BROKEN, OF_ONE_LOG
from holdfast.channels.words import with_lead

_log = logging.getLogger(__name__)


class Watching:
    """One task for each session that has something to answer; a session without any isn't watched."""

    def __init__(self, deps: ChannelDeps, log: ChannelLog, *, dialect: Dialect) -> None:
        self._deps = deps
        self._channel = log
        self._dialect = dialect
        self._sessions: set[str] = set()  # those that are watched

    async def run(self) -> None:
        """Watch until cancelled."""
        state = self._channel.state
        async with asyncio.TaskGroup() as tasks:
            while True:
                for session_id in {one.session_id for one in state.awaited.values()} - self._sessions:
                    self._sessions.add(session_id)
                    tasks.create_task(self._watch(session_id), name=f"watch {session_id}")
                await self._channel.until(
                    lambda: any(one.session_id not in self._sessions for one in state.awaited.values())
                )

    async def _watch(self, session_id: str) -> None:
        """Look at the session until nothing of it is awaited, or its log turns out to be unreadable."""
        try:
            await self._follow(session_id)
        except OF_ONE_LOG:
            _log.exception("channel %s: session %s can't be read", self._channel.log_id, session_id)
            await self._give_up(session_id)
        finally:
            # At once when nothing is awaited: a message that is taken before a callback of the task would
            # have no answer until something else happens.
            self._sessions.discard(session_id)

    async def _follow(self, session_id: str) -> None:
        """Look at the session each time its log changes, until nothing of it is awaited."""
        view = await self._deps.supervisor.view(session_id)
        following = self._deps.store.follow(session_id, after=view.last_seq, pace="seldom")
        if not await self._look(session_id, view):
            return
        async for _ in following:
            if not await self._look(session_id, await self._deps.supervisor.view(session_id)):
                return
        await self._forget(session_id)

    async def _give_up(self, session_id: str) -> None:
        """Nothing more can be said of what the session was asked, so each chat that waits is told that."""
        now_ms = self._deps.clock.now_ms()
        awaited = awaited_in(self._channel.state, session_id)
        body = with_lead(BROKEN, self._dialect.lead)
        last = {one.chat: f"{one.message_id}.broken" for one in awaited}
        told = [
            e.DeliveryIntended(at_ms=now_ms, chat=chat, message=message, body=body)
            for chat, message in last.items()
        ]
        await self._channel.append(*told, *(settled(one, now_ms, "its log can't be read") for one in awaited))

    async def _forget(self, session_id: str) -> None:
        """The session was purged, so nothing of it will be answered."""
        now_ms = self._deps.clock.now_ms()
        gone = [
            settled(one, now_ms, "the session is gone") for one in awaited_in(self._channel.state, session_id)
        ]
        if gone:
            await self._channel.append(*gone)

    async def _look(self, session_id: str, view: SharedFold) -> bool:
        """Intend what is due; False if nothing is awaited any more."""
        state = self._channel.state
        now_ms = self._deps.clock.now_ms()
        found = [
            *notices(state, session_id, view, budget=self._deps.budget, now_ms=now_ms),
            *due(state, session_id, view, dialect=self._dialect, now_ms=now_ms),
        ]
        if found:
            await self._channel.append(*found)
        return bool(awaited_in(state, session_id))
