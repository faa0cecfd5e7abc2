"""The other servers that share the store, as routes see them. A server with its own store has none."""

from collections.abc import Mapping
from http import HTTPStatus

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from holdfast.agent.deps import AgentDeps
from holdfast.api.live import QueuePlace, SessionLive
from holdfast.catalog import FEATURES
from holdfast.interfaces.nodes import Node
from holdfast.runner.supervisor import Supervisor
from holdfast.server.access.auth import KeyRing
from holdfast.server.options import DescribeJobs

PEER = "holdfast.peer"  # in the scope of a request: the name of the server that forwarded it
ALONE = "no other server shares the store"


class Peers:
    """A server alone: it knows the live state of all sessions, and has the files of all.

    A feature with a store for several servers derives from this class (`Feature.peers`). `open` is called
    before the first request and `close` at the end.
    """

    exist = False  # whether other servers may share the store

    def __init__(
        self, agent: AgentDeps, supervisor: Supervisor, keys: KeyRing, *, jobs: DescribeJobs
    ) -> None:
        self._agent = agent
        self._store = agent.store
        self._supervisor = supervisor
        del keys  # for servers that others send requests to
        self._jobs = jobs

    async def open(self) -> None:
        """Get what requests between servers need."""

    async def close(self) -> None:
        """End all connections."""

    def key_for(self, purpose: str) -> bytes:
        """Return a secret that all servers derive alike."""
        raise AssertionError(f"{ALONE}: there is no secret for {purpose}")

    def is_signed(self, scope: Scope) -> bool:
        """Return whether another server has signed the request; raises a Problem for a wrong signature."""
        del scope
        return False

    async def admit(self, scope: Scope, receive: Receive, *, bytes_max: int) -> tuple[str, Receive] | None:
        """Return the name of the key that another server's request acts for, and the request's body.

        None if no other server has signed it. Raises a Problem for a wrong signature.
        """
        del scope, receive, bytes_max

    def here(self, session_id: str) -> SessionLive:
        """Return this server's live state of a session: live lines, queue positions, background jobs."""
        owner = self._supervisor.owner(session_id)
        logs = owner.logs if owner else {}
        queue = {
            run_id: QueuePlace(position=turn.position, why=turn.why)
            for run_id in logs
            if (turn := self._supervisor.resources.queue_position(run_id)) is not None
        }
        secrets, name = self._agent.secrets, self._store.node.name
        return SessionLive(
            session_id=session_id,
            server=name,
            known=True,
            lines={run_id: log.live_line() for run_id, log in logs.items()},
            queue=queue,
            background=tuple(
                replace(job, command=secrets.redact_text(job.command), server=name)
                for job in self._jobs(session_id)
            ),
        )

    async def live(self, session_id: str) -> SessionLive:
        """Return a session's live state, of all servers."""
        return self.here(session_id)

    def lines(self, session_id: str, *, silent_s: float = 0.0) -> Mapping[str, str] | None:
        """Return the live lines of active runs by run id; None while another server is being asked.

        `silent_s` is for how long the caller has heard no event of the session: what was known before that is
        outdated.
        """
        del silent_s
        return self.here(session_id).lines

    def line(self, session_id: str, run_id: str, *, silent_s: float = 0.0) -> str | None:
        """Return a run's live line, empty if it isn't known yet; None if the run isn't active."""
        lines = self.lines(session_id, silent_s=silent_s)
        return "" if lines is None else lines.get(run_id)

    async def elsewhere(self, request: Request, session_id: str, body: bytes = b"") -> Response | None:
        """Return the response of the server that has the session's files, or None if that's this one.

        Raises a Problem.
        """
        del request, session_id, body

    async def at_others(
        self, request: Request, session_id: str, body: bytes = b"", *, lacking: HTTPStatus
    ) -> Response | None:
        """Return the response of another server that reaches the files, or None if all say `lacking`."""
        del request, session_id, body, lacking

    async def forward(
        self, request: Request, node: Node, body: bytes, *, has: str, answer_s: float
    ) -> Response:
        """Return another server's response to this request; raises a Problem if it gives none.

        `body` is the request's, which can be read only once. `has` is what the other server has.
        """
        del request, body, has, answer_s
        raise AssertionError(f"{ALONE}, also not {node.name}")


def peers_of(agent: AgentDeps, supervisor: Supervisor, keys: KeyRing, *, jobs: DescribeJobs) -> Peers:
    """Return the servers that share this server's store."""
    features = [one for one in FEATURES.values() if one.peers] if agent.store.node.name else []
    kind: type[Peers] = features[0].part(features[0].peers) if features else Peers
    return kind(agent, supervisor, keys, jobs=jobs)
