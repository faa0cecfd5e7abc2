"""Requests that need a session's files: the server that has them answers, whichever was asked."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from holdfast.agent.placement import in_words
from holdfast.interfaces.journal import Store
from holdfast.server.peers.peers import PEER, Peers
from holdfast.server.problems import Problem


class FileRequests:
    """Passes requests on to the server that has the session's files."""

    def __init__(self, store: Store, peers: Peers) -> None:
        self._store = store
        self._peers = peers

    async def elsewhere(self, request: Request, session_id: str, body: bytes = b"") -> Response | None:
        """The answer of the server that has the files; None if that is this one. Raises a Problem."""
        if not self._peers.exist:
            return None
        home = (await self._store.place(session_id)).home
        this = self._store.node
        if not home or home in this.homes:
            return None
        having = [node for node in await self._store.nodes() if home in node.homes and node.lease_left_s > 0]
        if not having or request.scope.get(PEER):
            text = f"The session's files are on {in_words(home)}, which isn't running. Start it and try again"
            raise Problem(409, text, code="files_elsewhere")
        return await self._peers.pass_on(request, having[0], body)

    async def at_others(
        self, request: Request, session_id: str, body: bytes = b"", *, lacking: HTTPStatus
    ) -> Response | None:
        """The answer of another server that reaches the session's files; None if all say `lacking`."""
        home = (await self._store.place(session_id)).home if self._peers.exist else ""
        if not home or request.scope.get(PEER):
            return None
        for node in await self._store.nodes():
            if home in node.homes and node.lease_left_s > 0 and node.name != self._store.node.name:
                response = await self._peers.pass_on(request, node, body)
                if response.status_code != lacking:
                    return response
                response.drop()
        return None
