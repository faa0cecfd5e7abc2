"""Live state of sessions that other servers work on: live lines, queue positions, background jobs."""

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.deps import AgentDeps
from holdfast.api.live import SessionLive
from holdfast.features.postgres.peers.requests import PeerRequests
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.nodes import Node
from holdfast.runner.supervisor import Supervisor
from holdfast.server.access.caller import caller_name

LIVE_S = 1.5  # how long an answer of another server counts while a run is active there
IDLE_S = 15.0  # and while none is
KNOWN_MAX = 1_000
OTHERS_MAX = 16
_OK = 200


class _Known(Struct):
    live: SessionLive
    at_s: float


class LiveStateReader:
    """Asks the server that works on a session; streams get what was heard last, and it is asked anew."""

    def __init__(
        self,
        agent: AgentDeps,
        supervisor: Supervisor,
        requests: PeerRequests,
        *,
        here: Callable[[str], SessionLive],
    ) -> None:
        self._store = agent.store
        self._supervisor = supervisor
        self._requests = requests
        self._clock = agent.clock
        self._here = here
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[SessionLive]] = {}

    async def of(self, session_id: str) -> SessionLive:
        """Return the session's live state from the server that runs it, with a short timeout.

        Background processes are queried on every server that has the session's files.
        """
        worked, others = await asyncio.gather(self._of_owner(session_id), self._of_others(session_id))
        jobs = {job.job_id: job for one in (worked, *others) for job in one.background}
        silent = next((one for one in (worked, *others) if not one.known), worked)
        return replace(worked, server=silent.server, known=silent.known, background=tuple(jobs.values()))

    async def _of_owner(self, session_id: str) -> SessionLive:
        if self._supervisor.owner(session_id) is not None:
            return self._here(session_id)
        task = self._asking.get(session_id)
        if task is None:
            task = asyncio.create_task(self._ask(session_id), name=f"ask about {session_id}")
            self._asking[session_id] = task
            task.add_done_callback(lambda done: self._heard(session_id, done))
        return await asyncio.shield(task)

    def lines(self, session_id: str, *, silent_s: float = 0.0) -> Mapping[str, str] | None:
        """See `Peers.lines`."""
        if self._supervisor.owner(session_id) is not None:
            return self._here(session_id).lines
        now_s, known = self._clock.monotonic_s(), self._known.get(session_id)
        if known is not None:
            most_s = LIVE_S if known.live.lines else min(IDLE_S, max(silent_s, LIVE_S))
            if now_s - known.at_s < most_s:
                return known.live.lines
        if session_id not in self._asking:
            asking = asyncio.ensure_future(self._of_owner(session_id))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return known.live.lines if known is not None and known.live.lines else None

    async def close(self) -> None:
        """Ask nothing more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _heard(self, session_id: str, done: "asyncio.Task[SessionLive]") -> None:
        self._asking.pop(session_id, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._known.pop(session_id, None)
        self._known[session_id] = _Known(done.result(), self._clock.monotonic_s())
        while len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    async def _ask(self, session_id: str) -> SessionLive:
        try:
            node = await self._node_of(session_id)
        except JournalError:
            return SessionLive(session_id=session_id, server="", known=False)
        return self._here(session_id) if node is None else await self._answer_of(node, session_id)

    async def _of_others(self, session_id: str) -> list[SessionLive]:
        """Query servers that have the volume with the session's files but don't run it."""
        try:
            place = await self._store.place(session_id)
            if not place.home.startswith("volume:"):
                return []
            nodes = [node for node in await self._store.nodes() if place.home in node.homes]
        except JournalError:
            return []  # the owner is unknown too, and reported as such
        asked = [node for node in nodes if node.name != place.owner][:OTHERS_MAX]
        return await asyncio.gather(*[self._job_list(node, session_id) for node in asked])

    async def _job_list(self, node: Node, session_id: str) -> SessionLive:
        if node.name == self._store.node.name:
            return self._here(session_id)
        return await self._answer_of(node, session_id)

    async def _answer_of(self, node: Node, session_id: str) -> SessionLive:
        target = f"/api/sessions/{quote(session_id, safe='')}/live"
        answer = await self._requests.ask(node, target, key_name=caller_name())
        if answer is not None and answer.status == _OK:
            try:
                return msgspec.json.decode(answer.body, type=SessionLive)
            except msgspec.MsgspecError:
                pass  # another version, which says it in other words
        return SessionLive(session_id=session_id, server=node.name, known=False)

    async def _node_of(self, session_id: str) -> Node | None:
        """The other server that works on the session or has its files; None if there is none."""
        place = await self._store.place(session_id)
        this = self._store.node
        if place.owner and place.owner != this.name:
            return Node(place.owner, place.url)
        if place.owner or not place.home or place.home in this.homes:
            return None
        return next((one for one in await self._store.nodes() if place.home in one.homes), None)
