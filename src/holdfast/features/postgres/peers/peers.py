"""The servers that share a database: they ask each other for live state, and forward requests for files."""

import asyncio
import hmac
from collections.abc import Mapping
from http import HTTPStatus
from importlib import import_module

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope
from typing_extensions import override

from holdfast.agent.deps import AgentDeps
from holdfast.agent.placement import in_words
from holdfast.api.live import SessionLive
from holdfast.features.postgres.peers.admission import PeerAdmission
from holdfast.features.postgres.peers.live_state import LiveStateReader
from holdfast.features.postgres.peers.requests import ForwardedResponse, PeerRequests
from holdfast.features.postgres.peers.signatures import PeerSignatures
from holdfast.interfaces.nodes import Node
from holdfast.journal.shared_notes import cluster_secret
from holdfast.runner.supervisor import Supervisor
from holdfast.server.access.auth import KeyRing
from holdfast.server.options import DescribeJobs
from holdfast.server.peers import PEER, Peers
from holdfast.server.problems import Problem

FILES = "the session's files"


class PeerServers(Peers):
    """The other servers, and what this one does for them."""

    exist = True

    def __init__(
        self, agent: AgentDeps, supervisor: Supervisor, keys: KeyRing, *, jobs: DescribeJobs
    ) -> None:
        super().__init__(agent, supervisor, keys, jobs=jobs)
        self._signatures = PeerSignatures(agent.clock, agent.store.node.name)
        self._admission = PeerAdmission(self._signatures, keys)
        self._requests = PeerRequests(self._signatures, agent.clock)
        self._live = LiveStateReader(agent, supervisor, self._requests, here=self.here)

    @override
    async def open(self) -> None:
        await asyncio.to_thread(import_module, "aiohttp")  # a server without others starts without it
        self._signatures.key = await cluster_secret(self._store)

    @override
    async def close(self) -> None:
        await self._live.close()
        await self._requests.close()

    @override
    def key_for(self, purpose: str) -> bytes:
        assert self._signatures.key, "it is opened first"
        return hmac.digest(self._signatures.key, purpose.encode(), "sha256")

    @override
    def is_signed(self, scope: Scope) -> bool:
        return self._admission.signature_of(scope) is not None

    @override
    async def admit(self, scope: Scope, receive: Receive, *, bytes_max: int) -> tuple[str, Receive] | None:
        return await self._admission.admit(scope, receive, bytes_max=bytes_max)

    @override
    async def live(self, session_id: str) -> SessionLive:
        return await self._live.of(session_id)

    @override
    def lines(self, session_id: str, *, silent_s: float = 0.0) -> Mapping[str, str] | None:
        return self._live.lines(session_id, silent_s=silent_s)

    @override
    async def elsewhere(self, request: Request, session_id: str, body: bytes = b"") -> Response | None:
        home = (await self._store.place(session_id)).home
        this = self._store.node
        if not home or home in this.homes:
            return None
        having = [node for node in await self._store.nodes() if home in node.homes and node.lease_left_s > 0]
        if not having or request.scope.get(PEER):
            text = f"The session's files are on {in_words(home)}, which isn't running. Start it and try again"
            raise Problem(409, text, code="files_elsewhere")
        return await self._requests.forward(request, having[0], body, has=FILES)

    @override
    async def at_others(
        self, request: Request, session_id: str, body: bytes = b"", *, lacking: HTTPStatus
    ) -> Response | None:
        home = (await self._store.place(session_id)).home
        if not home or request.scope.get(PEER):
            return None
        for node in await self._store.nodes():
            if home in node.homes and node.lease_left_s > 0 and node.name != self._store.node.name:
                response = await self._requests.forward(request, node, body, has=FILES)
                if response.status_code != lacking:
                    return response
                response.drop()
        return None

    @override
    async def forward(
        self, request: Request, node: Node, body: bytes, *, has: str, answer_s: float
    ) -> ForwardedResponse:
        return await self._requests.forward(request, node, body, has=has, answer_s=answer_s)
