"""Shows sub-agents' requests at their parent's terminal by following their runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast import events as e
from holdfast.client.errors import ClientError, Refused
from holdfast.client.updates import resolved_id
from holdfast.values import NOT_CREATED

if TYPE_CHECKING:
    from holdfast.api.children import ChildList
    from holdfast.client import Client

AGAIN_S = 0.5  # a sub-agent is announced shortly before it exists
NOT_FOUND = 404


class ChildAsks:
    """Follows sub-agents and theirs; `hear` gets each ask, and each event that settles one."""

    def __init__(self, client: "Client", hear: Callable[[str, e.Event], Awaitable[None]]) -> None:
        self._client = client
        self._hear = hear
        self._following: dict[str, asyncio.Task[None]] = {}  # by session

    def take(self, event: e.Event) -> None:
        """Take an event of the parent: it may be about a sub-agent."""
        if isinstance(event, e.ChildStarted):
            self._follow(event.child_id, event.child_run_id, name=event.name)
        elif isinstance(event, e.ChildEnded) and event.cause == NOT_CREATED:
            self._give_up(event.child_id)  # of any other, its own log says when it is over

    def adopt(self, found: "ChildList") -> None:
        """Follow the sub-agents that work already."""
        for child in found.data:
            if child.outcome is None and child.depth == 1:
                self._follow(child.session_id, child.run_id, name=child.name)

    async def close(self) -> None:
        """Stop following."""
        following, self._following = list(self._following.values()), {}
        for task in following:
            task.cancel()
        if following:
            await asyncio.wait(following)

    def _give_up(self, session_id: str) -> None:
        if (waiting := self._following.get(session_id)) is not None:
            waiting.cancel()

    def _follow(self, session_id: str, run_id: str, *, name: str) -> None:
        if session_id not in self._following:
            task = asyncio.create_task(self._watch(run_id, name), name=f"follow {name}")
            self._following[session_id] = task

    async def _watch(self, run_id: str, name: str) -> None:
        seq, is_over = 0, False
        while not is_over:
            try:
                async for seen in self._client.follow(run_id, after=seq):
                    seq = seen.seq
                    self.take(seen.event)
                    if isinstance(seen.event, e.ApprovalAsked | e.QuestionAsked) or resolved_id(seen.event):
                        await self._hear(name, seen.event)
                is_over = True
            except Refused as error:
                is_over = error.status != NOT_FOUND  # otherwise this key may not see it
            except ClientError:
                is_over = False  # the parent's reader reports that the server is unreachable
            if not is_over:
                await asyncio.sleep(AGAIN_S)
