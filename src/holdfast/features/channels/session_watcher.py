"""Watches the sessions of a channel's chats and logs their pending deliveries."""

import asyncio
import logging

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deliveries import PlatformFormat, closed, pending_events, unanswered
from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.notices import notices
from holdfast.features.channels.store_errors import BROKEN, OF_ONE_LOG
from holdfast.features.channels.texts import with_lead

_log = logging.getLogger(__name__)


class SessionWatcher:
    """One task for each session with unanswered messages."""

    def __init__(self, deps: ChannelDeps, log: ChannelLog, *, text_format: PlatformFormat) -> None:
        self._deps = deps
        self._channel = log
        self._text_format = text_format
        self._sessions: set[str] = set()  # watched sessions

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
        """Watch the session until everything is answered, or its log is unreadable."""
        try:
            await self._follow(session_id)
        except OF_ONE_LOG:
            _log.exception("channel %s: session %s can't be read", self._channel.log_id, session_id)
            await self._give_up(session_id)
        finally:
            # Immediately when nothing is awaited: a message accepted before a task callback would
            # stay unanswered until the next event.
            self._sessions.discard(session_id)

    async def _follow(self, session_id: str) -> None:
        """Check the session each time its log changes, until everything is answered."""
        view = await self._deps.supervisor.view(session_id)
        following = self._deps.store.follow(session_id, after=view.last_seq, pace="seldom")
        if not await self._look(session_id, view):
            return
        async for _ in following:
            if not await self._look(session_id, await self._deps.supervisor.view(session_id)):
                return
        await self._forget(session_id)

    async def _give_up(self, session_id: str) -> None:
        """Notify each waiting chat that the session's log is unreadable."""
        now_ms = self._deps.clock.now_ms()
        awaited = unanswered(self._channel.state, session_id)
        body = with_lead(BROKEN, self._text_format.lead)
        last = {one.chat: f"{one.message_id}.broken" for one in awaited}
        told = [
            e.DeliveryIntended(at_ms=now_ms, chat=chat, message=message, body=body)
            for chat, message in last.items()
        ]
        await self._channel.append(*told, *(closed(one, now_ms, "unreadable log") for one in awaited))

    async def _forget(self, session_id: str) -> None:
        """Close the messages of a purged session."""
        now_ms = self._deps.clock.now_ms()
        gone = [
            closed(one, now_ms, "session not found") for one in unanswered(self._channel.state, session_id)
        ]
        if gone:
            await self._channel.append(*gone)

    async def _look(self, session_id: str, view: SharedFold) -> bool:
        """Log pending deliveries. Returns False if everything is answered."""
        state = self._channel.state
        now_ms = self._deps.clock.now_ms()
        found = [
            *notices(state, session_id, view, budget=self._deps.budget, now_ms=now_ms),
            *pending_events(state, session_id, view, text_format=self._text_format, now_ms=now_ms),
        ]
        if found:
            await self._channel.append(*found)
        return bool(unanswered(state, session_id))
