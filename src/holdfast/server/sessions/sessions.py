"""Sessions over HTTP: list, search, create, change, delete and undelete."""

from collections.abc import Sequence

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.sessions import (
    OFFSET_MAX,
    ApprovalModeRequest,
    ApprovalModeShown,
    ChangeSessionRequest,
    CreateSessionRequest,
    DeletedSession,
    DraftRequest,
    DraftText,
    SessionMade,
    SessionPage,
    SessionShown,
)
from holdfast.catalog import LOG_SOURCES
from holdfast.folds.rows import GIVEN_TITLE_CHARS_MAX, SessionRow
from holdfast.interfaces.ids import new_epoch, new_session_id
from holdfast.interfaces.index import ListedSession, SearchHit, SessionQuery
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    IfSessionKnown,
    IfSessionNew,
    KeyConflict,
    Replayed,
    UnknownSession,
)
from holdfast.safe_text import safe_line
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.peers import PEER
from holdfast.server.problems import Problem, bad_request, session_not_found
from holdfast.server.runs.requests import ORIGINS
from holdfast.server.sessions.listing import (
    ReadMark,
    cursor_in,
    cursor_of,
    hit,
    listed,
    with_family,
    wrapped,
)
from holdfast.server.transport.bodies import (
    checked_session_id,
    decoded,
    flag,
    json_response,
    parsed,
    read_body,
    whole_number,
)
from holdfast.server.transport.once import earlier_response, once_key, replayed
from holdfast.server.upkeep.purging import Purges, RunsGoOn
from holdfast.values import CHILD, ONE_SHOT, OPENAI, RELAY, mode_named

PAGE_MAX = 200
DRAFT_CHARS_MAX = 1_000_000


async def session_of(deps: RouteDeps, request: Request) -> ListedSession:
    """The session that the path names; raises a Problem if it is unknown or deleted."""
    session_id: str = request.path_params["session_id"]
    found = await deps.store.listed(session_id)
    if found is None or found.row.purge_at_ms:
        raise session_not_found(session_id)
    return found


class SessionRoutes:
    """The routes for sessions as a whole."""

    def __init__(self, deps: RouteDeps, purges: Purges) -> None:
        self._deps = deps
        self._purges = purges

    async def list(self, request: Request) -> Response:
        """GET /api/sessions."""
        store, query = self._deps.store, request.query_params
        limit = whole_number(request, "limit", default=50, most=PAGE_MAX)
        skipped = _skipped(query.get("offset", ""))
        wanted = SessionQuery(
            limit=skipped + limit + 1,
            before=cursor_in(query.get("cursor", "")),
            archived=flag(request, "archived"),
            sources_hidden=_sources_hidden(request),
        )
        if words := query.get("q", "").strip():
            archived = flag(request, "archived") if "archived" in query else None
            hits = await store.search(
                words, limit=skipped + limit + 1, archived=archived, session_id=query.get("session_id", "")
            )
            return await self._found(hits[skipped:], limit)
        found = (await store.sessions(wanted))[skipped:]
        page = found[:limit]
        more = len(found) > limit
        return json_response(
            SessionPage(
                data=await with_family(store, [listed(one, self._deps.marks) for one in page]),
                has_more=more,
                next_cursor=cursor_of(page[-1]) if more else None,
                limit=limit,
                offset=skipped,
                open_asks=await store.open_ask_count(),
            )
        )

    async def _found(self, hits: Sequence[SearchHit], limit: int) -> Response:
        data: list[SessionShown] = []
        for one in hits[:limit]:
            row = await self._deps.store.listed(one.session_id)
            if row is not None:
                data.append(replace(listed(row, self._deps.marks), hit=hit(one)))
        more = len(hits) > limit
        return json_response(SessionPage(data=tuple(data), has_more=more, next_cursor=None))

    async def create(self, request: Request) -> Response:
        """POST /api/sessions."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, CreateSessionRequest)
        session_id = wanted.session_id or wanted.id or new_session_id()
        checked_session_id(session_id)
        created = e.SessionCreated(
            at_ms=deps.clock.now_ms(),
            epoch=new_epoch(),
            title=deps.redactor.redact_text(checked_title(wanted.title or "")),
            workspace=wanted.workspace or "",
            source=wanted.origin if wanted.origin in ORIGINS else "api",
        )
        key = once_key(request, body, deps)
        if (earlier := await earlier_response(key, deps, status=201)) is not None:
            return earlier
        created = replace(created, workspace=await deps.workspaces.existing(created.workspace))
        answer = wrapped(
            SessionMade(
                id=session_id,
                session_id=session_id,
                title=created.title,
                epoch=created.epoch,
                created_at=created.at_ms / 1000,
            )
        )
        targets = deps.options.targets
        defaults = e.SessionDefaultsSet(
            at_ms=created.at_ms,
            # Clients of hermes also send names of the agent itself.
            model=next((one.name for one in targets if wanted.model in {one.name, one.model}), ""),
            instructions=deps.redactor.redact_text(wanted.system_prompt or ""),
            by=request.scope[KEY_NAME],
        )
        inputs = [created, defaults] if defaults.model or defaults.instructions else [created]
        result = await deps.store.append(
            session_id, inputs, when=[IfSessionNew()], idempotency_key=key.of(answer) if key else None
        )
        return created_response(result, answer)

    async def show(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}."""
        found = await session_of(self._deps, request)
        last_seq = await self._deps.store.last_seq(found.row.session_id)
        return json_response(wrapped(replace(listed(found, self._deps.marks), last_seq=last_seq)))

    async def change(self, request: Request) -> Response:
        """PATCH /api/sessions/{session_id}."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, ChangeSessionRequest)
        found = await session_of(deps, request)
        session_id, row, now_ms = found.row.session_id, found.row, deps.clock.now_ms()
        changes: list[e.Input] = []
        if wanted.title is not None:
            changes.append(e.SessionRenamed(at_ms=now_ms, title=checked_title(wanted.title)))
        if wanted.pinned is not None and wanted.pinned != row.pinned:
            changes.append(
                e.SessionPinned(at_ms=now_ms) if wanted.pinned else e.SessionUnpinned(at_ms=now_ms)
            )
        if wanted.archived is not None and wanted.archived != row.archived:
            kind = e.SessionArchived if wanted.archived else e.SessionUnarchived
            changes.append(kind(at_ms=now_ms))
        if wanted.read_seq is not None:
            await self._mark(row, wanted.read_seq)
        if changes and not await deps.inbox.put(session_id, *changes):
            raise session_not_found(session_id)
        return json_response(wrapped(listed(await session_of(deps, request), deps.marks)))

    async def live(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/live."""
        session_id = (await session_of(self._deps, request)).row.session_id
        peers = self._deps.peers
        is_peer = PEER in request.scope  # forwarded requests are answered here, without forwarding them again
        return json_response(peers.here(session_id) if is_peer else await peers.live(session_id))

    async def move(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/move."""
        deps = self._deps
        session_id = (await session_of(deps, request)).row.session_id
        if not (await deps.supervisor.place(session_id)).is_away:
            why = "No need to move the session: a server with its files is running"
            raise Problem(409, why, code="session_not_away")
        moved = e.SessionMoved(at_ms=deps.clock.now_ms(), by=request.scope[KEY_NAME])
        if not await deps.inbox.put(session_id, moved):
            raise session_not_found(session_id)
        return json_response(wrapped(listed(await session_of(deps, request), deps.marks)))

    async def put_mode(self, request: Request) -> Response:
        """PUT /api/sessions/{session_id}/approval-mode."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, ApprovalModeRequest)
        session_id = (await session_of(deps, request)).row.session_id
        mode = mode_named(wanted.mode)
        await deps.mode_access.check_in(session_id, deps.modes.named(mode), deps.modes)
        if not await deps.modes.put(session_id, mode, by=request.scope[KEY_NAME]):
            raise session_not_found(session_id)
        return json_response(ApprovalModeShown(mode=wanted.mode))

    async def _mark(self, row: SessionRow, read_seq: int) -> None:
        """Mark the session as read up to here."""
        deps, session_id = self._deps, row.session_id
        last_seq = await deps.store.last_seq(session_id)
        seq = min(max(read_seq, 0), last_seq)
        now_ms = deps.clock.now_ms()
        await deps.marks.put(session_id, ReadMark(seq, now_ms if seq == last_seq else 0))
        known = await deps.store.session(session_id)
        if known is None or known.epoch != row.epoch:
            # It was purged meanwhile, so this must not stay behind.
            await deps.marks.drop(session_id)
            raise session_not_found(session_id)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/sessions/{session_id}."""
        deps = self._deps
        session_id: str = request.path_params["session_id"]
        now = flag(request, "now")
        found = await deps.store.listed(session_id)
        if found is None or (found.row.purge_at_ms and not now):
            raise session_not_found(session_id)
        purge_at_ms = deps.clock.now_ms() + int(1000 * deps.limits.undelete_s)
        deleted = e.SessionDeleted(at_ms=deps.clock.now_ms(), purge_at_ms=purge_at_ms)
        await deps.store.append(session_id, [deleted], when=[IfSessionKnown()])
        await self._purges.stop_runs(session_id)
        self._purges.look_again()  # also for one that cannot be purged now
        if now:
            await self._purge(session_id)
        return json_response(
            DeletedSession(
                id=session_id,
                session_id=session_id,
                deleted=True,
                purge_at=None if now else purge_at_ms / 1000,
            )
        )

    async def _purge(self, session_id: str) -> None:
        try:
            await self._purges.purge(session_id)
        except RunsGoOn:
            text = (
                "The session is deleted, but one of its runs hasn't ended. It will be purged when the run "
                "ends"
            )
            raise Problem(503, text, code="runs_go_on", headers={"Retry-After": "15"}) from None

    async def undelete(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/undelete."""
        deps = self._deps
        session_id: str = request.path_params["session_id"]
        await read_body(request, deps.limits)
        row = await deps.store.session(session_id)
        if row is None:
            raise session_not_found(session_id)
        if row.purge_at_ms:
            restored = e.SessionRestored(at_ms=deps.clock.now_ms())
            try:
                await deps.store.append(session_id, [restored])
                await self._restore_children(session_id, row.purge_at_ms)
            except UnknownSession:
                raise session_not_found(session_id) from None
        return json_response(listed(await session_of(deps, request), deps.marks))

    async def _restore_children(self, session_id: str, purge_at_ms: int) -> None:
        """Restore the sub-agents that were deleted together with the session."""
        store = self._deps.store
        for child_id in await self._purges.children(session_id):
            row = await store.session(child_id)
            if row is not None and row.purge_at_ms == purge_at_ms:
                await store.append(child_id, [e.SessionRestored(at_ms=self._deps.clock.now_ms())])
                await self._restore_children(child_id, purge_at_ms)
                # It may have ended without telling its parent, if the server was restarted meanwhile.
                self._deps.supervisor.wake(child_id, 0)

    async def put_draft(self, request: Request) -> Response:
        """PUT /api/sessions/{session_id}/draft."""
        draft = await decoded(request, self._deps.limits, DraftRequest)
        session_id = checked_session_id(request.path_params["session_id"])
        if len(draft.text) > DRAFT_CHARS_MAX:
            raise bad_request(f"'text' is longer than {DRAFT_CHARS_MAX} characters", param="text")
        key, text = _draft_note(session_id), self._deps.redactor.redact_text(draft.text)
        if not text:
            await self._deps.store.drop_note(key)
            return json_response(DraftText(text=text))
        await session_of(self._deps, request)
        await self._deps.store.put_note(key, text.encode())
        if await self._deps.store.session(session_id) is None:
            # It was purged meanwhile, so this must not stay behind.
            await self._deps.store.drop_note(key)
            raise session_not_found(session_id)
        return json_response(DraftText(text=text))

    async def draft(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/draft."""
        session_id = checked_session_id(request.path_params["session_id"])
        found = await self._deps.store.session(session_id)
        is_deleted = found is not None and found.purge_at_ms
        raw = None if is_deleted else await self._deps.store.note(_draft_note(session_id))
        return json_response(DraftText(text=(raw or b"").decode()))


def _skipped(given: str) -> int:
    """The offset of a client that pages by number; raises a Problem."""
    digits = given.lstrip("0")
    if given and not (given.isascii() and given.isdigit() and int(digits[:9] or 0) <= OFFSET_MAX):
        raise bad_request(
            f"'offset' must be a whole number up to {OFFSET_MAX}; use 'cursor' to go further", param="offset"
        )
    return int(digits or 0)


def _draft_note(session_id: str) -> str:
    """The note's key; the session's purge removes it."""
    return f"session/{session_id}/draft"


def created_response(result: Appended | Declined | Replayed | KeyConflict, answer: object) -> Response:
    """Build the response to a session's creation; raises a Problem if the id exists."""
    match result:
        case Appended():
            return json_response(answer, 201)
        case Declined():
            raise Problem(
                409, "A session with this id already exists", code="session_exists", param="session_id"
            )
        case _:
            return replayed(result, status=201)


def _sources_hidden(request: Request) -> tuple[str, ...]:
    if flag(request, "all"):
        return LOG_SOURCES
    hidden = (OPENAI, RELAY, *LOG_SOURCES, *(() if flag(request, "children") else (CHILD,)))
    return hidden if flag(request, "one_shots") else (*hidden, ONE_SHOT)


def checked_title(title: str) -> str:
    """The title in one line without control characters; raises a Problem if it is too long."""
    title = safe_line(title)
    if len(title) > GIVEN_TITLE_CHARS_MAX:
        raise bad_request(f"'title' is longer than {GIVEN_TITLE_CHARS_MAX} characters", param="title")
    return title
