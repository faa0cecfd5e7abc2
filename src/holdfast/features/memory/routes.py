"""Memories over HTTP: list, edit, review, roll back and forget."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import FEATURES, LOG_SOURCES
from holdfast.features.memory.bodies import (
    MemoryChangeShown,
    MemoryDecisionRequest,
    MemoryEditRequest,
    MemoryForgetRequest,
    MemoryForgotten,
    MemoryHistory,
    MemoryList,
    MemoryProposalRequest,
    MemoryProposalShown,
    MemoryRollbackRequest,
    MemoryShown,
    RememberedIn,
)
from holdfast.features.memory.events import MemoryOrigin
from holdfast.features.memory.memories import (
    Memories,
    MemoryEdit,
    MemoryScope,
    NotRemembered,
    ScopeKind,
    chat_scope,
    memory_of,
    skills_scope,
    user_scope,
    workspace_scope,
)
from holdfast.features.memory.state import DOCUMENT, Memory
from holdfast.server.access.caller import KEY_NAME, KEY_SCOPES, check_scope
from holdfast.server.access.workspaces import checked_workspace
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import decoded, json_response

HISTORY_MAX = 500
TYPED = "typed in the chat"
LINES_SEARCHED_MAX = 20
WORDS_SEARCHED_MAX = 12
FOUND_MAX = 50


class MemoryRoutes:
    """The routes under /v1/memory. Each key has its own memories."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._memories = Memories(parts.deps.store, parts.deps.clock)

    async def list(self, request: Request) -> Response:
        """GET /v1/memory."""
        owner = _owner(request)
        first = (user_scope(owner), workspace_scope(owner, self._deps.agent.workspace))
        is_admin = "admin" in request.scope[KEY_SCOPES]
        chats = await self._memories.scopes_of_chats() if is_admin else ()
        scopes = dict.fromkeys((*first, *await self._memories.scopes(owner), *chats))
        data = [memory_shown(scope, await self._memories.load(scope)) for scope in scopes]
        return json_response(MemoryList(mode=memory_of(self._deps.agent).mode, data=tuple(data)))

    async def history(self, request: Request) -> Response:
        """GET /v1/memory/history."""
        query = request.query_params
        about = (query.get("scope", "user"), query.get("workspace", ""), query.get("chat", ""))
        scope = self._scope(request, *about)
        memory = await self._memories.load(scope)
        data = [
            MemoryChangeShown(
                seq=seq,
                change_id=event.change_id,
                document=_name(scope, event.document),
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
        scope = self._scope(request, wanted.scope, wanted.workspace, wanted.chat)
        with _refused():
            document = _document(scope, wanted)
            text, by = wanted.text.strip(), _owner(request)
            memory = await self._memories.put(scope, document, text, by=by, seen_seq=wanted.seen_seq)
        return json_response(memory_shown(scope, memory))

    async def propose(self, request: Request) -> Response:
        """POST /v1/memory/propose."""
        wanted = await decoded(request, self._deps.limits, MemoryProposalRequest)
        if wanted.scope == "skills":
            raise bad_request("'scope' must be user, workspace or chat", param="scope")
        scope = self._scope(request, wanted.scope, wanted.workspace, wanted.chat)
        text = self._deps.redactor.redact_text(wanted.text.strip())
        key = request.headers.get("idempotency-key", "")[:255]
        with _refused():
            if memory_of(self._deps.agent).mode == "off":
                raise NotRemembered("Memory is off (agent.memory)")
            if not text:
                raise NotRemembered("The text is empty")
            edit = MemoryEdit(
                change_id=f"typed/{key or token_hex(16)}",
                document=DOCUMENT,
                new=text,
                reason=TYPED,
                origin=_typed_in(wanted.session_id),
            )
            await self._memories.propose(scope, edit, because=())
        return json_response(memory_shown(scope, await self._memories.load(scope)))

    async def decide(self, request: Request) -> Response:
        """POST /v1/memory/decide."""
        wanted = await decoded(request, self._deps.limits, MemoryDecisionRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace, wanted.chat)
        with _refused():
            memory = await self._memories.decide(
                scope, accept=wanted.accept, reject=wanted.reject, by=_owner(request)
            )
        return json_response(memory_shown(scope, memory))

    async def roll_back(self, request: Request) -> Response:
        """POST /v1/memory/rollback."""
        wanted = await decoded(request, self._deps.limits, MemoryRollbackRequest)
        by = _owner(request)
        scope = self._scope(request, wanted.scope, wanted.workspace, wanted.chat)
        with _refused():
            if wanted.change_id:
                memory = await self._memories.undo(scope, wanted.change_id, by=by)
            else:
                memory = await self._memories.roll_back(scope, wanted.to_seq, by=by, seen_seq=wanted.seen_seq)
        return json_response(memory_shown(scope, memory))

    async def forget(self, request: Request) -> Response:
        """POST /v1/memory/forget."""
        wanted = await decoded(request, self._deps.limits, MemoryForgetRequest)
        scope = self._scope(request, wanted.scope, wanted.workspace, wanted.chat)
        if wanted.text and not wanted.text.strip():
            raise bad_request("'text' must contain a word, or be empty to forget everything", param="text")
        memory = await self._memories.load(scope)
        texts = [wanted.text] if wanted.text else _lines(memory)
        is_there = not wanted.text or await self._memories.has(scope, wanted.text)
        with _refused():
            # For a text that it doesn't have, a memory would lose its history for nothing.
            origins = await self._memories.forget(scope, wanted.text) if is_there else ()
        found = [await self._remembered_in(session_id) for session_id in (*origins, *await self._with(texts))]
        sessions = {one.session_id: one for one in found if one is not None}
        return json_response(MemoryForgotten(forgotten=is_there, sessions=tuple(sessions.values())))

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
        if row is None or row.source in LOG_SOURCES:
            return None
        return RememberedIn(session_id=session_id, title=row.title)

    def _scope(self, request: Request, kind: str, workspace: str, chat: str) -> MemoryScope:
        """The memory that the request is about; raises a Problem."""
        if kind not in get_args(ScopeKind):
            raise bad_request("'scope' must be user, workspace, chat or skills", param="scope")
        checked_workspace(workspace)
        if kind == "chat" and not chat:
            raise bad_request("With 'scope' chat, set 'chat' to a chat", param="chat")
        if chat:
            check_scope(request.scope, "admin")
        match kind:
            case "chat":
                return chat_scope(chat)
            case "skills":
                return skills_scope(_owner(request), chat)
            case "user":
                return user_scope(_owner(request))
            case _:
                return workspace_scope(_owner(request), Path(workspace or self._deps.agent.workspace))


@contextmanager
def _refused() -> Generator[None]:
    """Turn what can't be remembered into a Problem."""
    try:
        yield
    except NotRemembered as error:
        raise Problem(409, str(error), code="not_remembered") from error


def memory_shown(scope: MemoryScope, memory: Memory) -> MemoryShown:
    """A memory as its owner sees it."""
    return MemoryShown(
        scope=scope.kind,
        workspace=scope.name if scope.kind == "workspace" else "",
        chat=scope.name if scope.kind in {"chat", "skills"} else "",
        document=memory.document if scope.kind != "skills" else "",
        notes=memory.notes if scope.kind != "skills" else memory.texts,
        proposals=tuple(
            MemoryProposalShown(
                change_id=one.change_id,
                document=_name(scope, one.document),
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


def _typed_in(session_id: str) -> MemoryOrigin | None:
    if not session_id:
        return None
    return MemoryOrigin(session_id=session_id, run_id="", message_id="", tool_call_id="")


def _name(scope: MemoryScope, document: str) -> str:
    return "" if document == DOCUMENT and scope.kind != "skills" else document


def _document(scope: MemoryScope, wanted: MemoryEditRequest) -> str:
    """Return the name of the document; raises a Problem for a skill that isn't valid."""
    document = wanted.document.strip()
    if scope.kind != "skills":
        return document or DOCUMENT
    skills = FEATURES.get("skills")
    if skills is None:
        raise bad_request(
            "'scope' skills needs the feature skills, which this server doesn't have", param="scope"
        )
    skills.part("routes:check_skill")(document, wanted.text)
    return document


def _lines(memory: Memory) -> list[str]:
    return [line.lstrip("-* ") for text in memory.texts.values() for line in text.split("\n") if line.strip()]


def _owner(request: Request) -> str:
    return request.scope[KEY_NAME]
