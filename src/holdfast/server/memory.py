"""What agents remember, over HTTP: shown, edited, decided about, rolled back and forgotten."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.powers.memory import (
    MemoryChangeShown,
    MemoryDecisionRequest,
    MemoryEditRequest,
    MemoryForgetRequest,
    MemoryForgotten,
    MemoryHistory,
    MemoryList,
    MemoryProposalShown,
    MemoryRollbackRequest,
    MemoryShown,
    RememberedIn,
)
from holdfast.folds.memory import DOCUMENT, Memory
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import decoded, json_response
from holdfast.tools.memory.memories import (
    Memories,
    MemoryScope,
    NotRemembered,
    skills_scope,
    user_scope,
    workspace_scope,
)
from holdfast.values import AUTOMATION_SOURCES

HISTORY_MAX = 500
LINES_SEARCHED_MAX = 20
WORDS_SEARCHED_MAX = 12
FOUND_MAX = 50


class MemoryRoutes:
    """What the routes under /v1/memory do; each key has memories of its own."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._memories = Memories(deps.store, deps.clock)

    async def list(self, request: Request) -> Response:
        """GET /v1/memory."""
        owner = _owner(request)
        first = (user_scope(owner), workspace_scope(owner, self._deps.agent.workspace))
        scopes = dict.fromkeys((*first, *await self._memories.scopes(owner)))
        data = [shown(scope, await self._memories.load(scope)) for scope in scopes]
        return json_response(MemoryList(mode=self._deps.agent.memory, data=tuple(data)))

    async def history(self, request: Request) -> Response:
        """GET /v1/memory/history."""
        query = request.query_params
        scope = self._scope(request, query.get("scope", "user"), query.get("workspace", ""))
        memory = await self._memories.load(scope)
        data = [
            MemoryChangeShown(
                seq=seq,
                change_id=event.change_id,
                document=_name(event.document),
                before=event.before,
                after=event.after,
                how=event.how,
                changed_at=event.at_ms / 1000,
                reason=event.reason,
                by=event.by,
                to_seq=event.to_seq,
                origin=event.origin,
            )
            for seq, event in reversed(memory.history[-HISTORY_MAX:])
        ]
        return json_response(MemoryHistory(data=tuple(data)))

    async def edit(self, request: Request) -> Response:
        """PUT /v1/memory."""
        wanted = await decoded(request, self._deps.limits, MemoryEditRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace)
        with _refused():
            document = wanted.document.strip() or DOCUMENT
            memory = await self._memories.put(scope, document, wanted.text.strip(), by=_owner(request))
        return json_response(shown(scope, memory))

    async def decide(self, request: Request) -> Response:
        """POST /v1/memory/decide."""
        wanted = await decoded(request, self._deps.limits, MemoryDecisionRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace)
        with _refused():
            memory = await self._memories.decide(
                scope, accept=wanted.accept, reject=wanted.reject, by=_owner(request)
            )
        return json_response(shown(scope, memory))

    async def roll_back(self, request: Request) -> Response:
        """POST /v1/memory/rollback."""
        wanted = await decoded(request, self._deps.limits, MemoryRollbackRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace)
        with _refused():
            memory = await self._memories.roll_back(scope, wanted.to_seq, by=_owner(request))
        return json_response(shown(scope, memory))

    async def forget(self, request: Request) -> Response:
        """POST /v1/memory/forget."""
        wanted = await decoded(request, self._deps.limits, MemoryForgetRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace)
        memory = await self._memories.load(scope)
        texts = [wanted.text] if wanted.text else _lines(memory)
        origins = await self._memories.forget(scope, wanted.text)
        found = [await self._remembered_in(session_id) for session_id in (*origins, *await self._with(texts))]
        sessions = {one.session_id: one for one in found if one is not None}
        return json_response(MemoryForgotten(forgotten=True, sessions=tuple(sessions.values())))

    async def _with(self, texts: Sequence[str]) -> Sequence[str]:
        """The sessions that have the words of one of the texts."""
        hits = [
            hit.session_id
            for text in texts[:LINES_SEARCHED_MAX]
            for hit in await self._deps.store.search(
                " ".join(text.split()[:WORDS_SEARCHED_MAX]), limit=FOUND_MAX
            )
        ]
        return tuple(dict.fromkeys(hits))[:FOUND_MAX]

    async def _remembered_in(self, session_id: str) -> RememberedIn | None:
        row = await self._deps.store.session(session_id)
        if row is None or row.source in AUTOMATION_SOURCES:
            return None
        return RememberedIn(session_id=session_id, title=row.title)

    def _scope(self, request: Request, kind: str, workspace: str) -> MemoryScope:
        """The memory that the request is about; raises a Problem."""
        if kind not in {"user", "workspace", "skills"}:
            raise bad_request("'scope' must be user, workspace or skills", param="scope")
        if kind == "skills":
            return skills_scope(_owner(request))
        if kind == "user":
            return user_scope(_owner(request))
        return workspace_scope(_owner(request), Path(workspace or self._deps.agent.workspace))


@contextmanager
def _refused() -> Generator[None]:
    """Turn what can't be remembered into a Problem."""
    try:
        yield
    except NotRemembered as error:
        raise Problem(409, str(error), code="not_remembered") from error


def shown(scope: MemoryScope, memory: Memory) -> MemoryShown:
    """A memory as its owner sees it."""
    return MemoryShown(
        scope=scope.kind if scope.kind != "chat" else "workspace",
        workspace=scope.name,
        document=memory.document,
        notes=memory.notes,
        proposals=tuple(
            MemoryProposalShown(
                change_id=one.change_id,
                document=_name(one.document),
                before=one.before,
                after=one.after,
                reason=one.reason,
                proposed_at=one.at_ms / 1000,
                because=one.because,
                origin=one.origin,
            )
            for one in memory.proposals.values()
        ),
        last_seq=memory.last_seq,
    )


def _name(document: str) -> str:
    return "" if document == DOCUMENT else document


def _lines(memory: Memory) -> list[str]:
    return [line.lstrip("-* ") for text in memory.texts.values() for line in text.split("\n") if line.strip()]


def _owner(request: Request) -> str:
    return request.scope[KEY_NAME]
