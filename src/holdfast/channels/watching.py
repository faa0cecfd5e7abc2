"""Watches the sessions of a channel's chats, and intends what there is to say about them."""

import asyncio

from holdfast.agent.shared_fold import SharedFold
from holdfast.channels.answers import Dialect, awaited_in, due, settled
from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.deps import ChannelDeps


class Watching:
    """One task for each session that has something to answer; a session without any isn't watched."""

    def __init__(self, deps: ChannelDeps, log: ChannelLog, *, dialect: Dialect) -> None:
        self._deps = deps
        self._channel = log
        self._dialect = dialect
        self._sessions: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        state = self._channel.state
        async with asyncio.TaskGroup() as tasks:
            while True:
                for session_id in {one.session_id for one in state.awaited.values()} - self._sessions.keys():
                    task = tasks.create_task(self._watch(session_id), name=f"watch {session_id}")
                    self._sessions[session_id] = task
                    task.add_done_callback(lambda _, id_=session_id: self._sessions.pop(id_))
                await self._channel.until(
                    lambda: any(one.session_id not in self._sessions for one in state.awaited.values())
                )

    async def _watch(self, session_id: str) -> None:
        """Look at the session each time its log changes, until nothing of it is awaited."""
        view = await self._deps.supervisor.view(session_id)
        following = self._deps.store.follow(session_id, after=view.last_seq, pace="seldom")
        if not await self._look(session_id, view):
            return
        async for _ in following:
            if not await self._look(session_id, await self._deps.supervisor.view(session_id)):
                return
        await self._forget(session_id)

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
        found = due(state, session_id, view, dialect=self._dialect, now_ms=self._deps.clock.now_ms())
        if found:
            await self._channel.append(*found)
        return bool(awaited_in(state, session_id))
