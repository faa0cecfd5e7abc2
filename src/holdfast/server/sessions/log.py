"""The log of a session over HTTP: its transcript, its events, forks, rewinds and exports.

A reader's position in a session's log: a seq, and optionally the epoch of the log. A cursor that the log
doesn't have begins at the start: a replay repeats events, while a wait for a number that never comes would
skip them. That's the case beyond the end of the log, and for another epoch: a session that was purged may be
made again under its id, and a seq of the earlier log means nothing in the new one.
"""

from typing import Any, cast
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast import events as e
from holdfast.agent.capabilities import needs_text
from holdfast.agent.placement import waiting_text
from holdfast.api.sessions import Forked, ForkRequest, LogStretch, RewindRequest, TranscriptPage
from holdfast.codec import numbered
from holdfast.events import Event
from holdfast.folds.rows import SessionRow
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript, text_while_recovering
from holdfast.interfaces.ids import new_session_id
from holdfast.interfaces.journal import IfSessionNew
from holdfast.runner.forks import ForkSource, SourceGone, forked_log
from holdfast.runner.session_grants import SessionGrant, note_session_grant
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request, session_not_found
from holdfast.server.sessions.exports import json_of, markdown_in_pieces, with_events, within
from holdfast.server.sessions.listing import entry, listed, marks_of_open_runs, page_of, wrapped
from holdfast.server.sessions.sessions import checked_title, created_response, session_of
from holdfast.server.sessions.window import newest, runs_of, unsettled_seq
from holdfast.server.streams.feeds import Live, SessionFeed, SessionListFeed
from holdfast.server.streams.stream import EventStream
from holdfast.server.transport.bodies import (
    checked_session_id,
    decoded,
    json_response,
    parsed,
    raw_response,
    read_body,
    whole_number,
)
from holdfast.server.transport.once import earlier_response, once_key
from holdfast.values import CHILD, ONE_SHOT, OPENAI, RELAY

EPOCH_HEADER = b"x-holdfast-epoch"


def cursor_in(request: Request, *, epoch: str, last_seq: int) -> int:
    """The seq after which to continue in the log of this epoch; 0 is the start.

    `Last-Event-ID` or `after` is SEQ or SEQ@EPOCH.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
    number, at, of_epoch = given.partition("@")
    if not (number.isascii() and number.isdigit()) or (at and of_epoch != epoch):
        return 0
    after = int(number[:18])
    return after if after <= last_seq else 0


PAGE_MAX = 500
READ_AT_ONCE = 1000
PACE_MS_MAX = 1000
_FILE_NAME_CHARS_MAX = 80


class SessionLogRoutes:
    """The routes that read or copy a session's log."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def messages(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/messages."""
        deps = self._deps
        found = await session_of(deps, request)
        session_id = found.row.session_id
        limit = whole_number(request, "limit", default=100, most=PAGE_MAX)
        before = whole_number(request, "before", default=0, most=1 << 60)
        state, seen = await deps.folds.session(session_id)
        place = await deps.supervisor.place(session_id)
        owned, now_ms = bool(place.owner), deps.clock.now_ms()
        is_nobodys = bool(state.open_runs) and not owned and not place.is_away
        lacking = await deps.supervisor.lacking(session_id) if is_nobodys else ()
        lines = (await deps.peers.live(session_id)).lines if state.open_runs and not before else {}
        root_id = session_id.partition("~")[0]
        versions = () if before else tuple(await deps.store.session_ids(f"{root_id}~"))
        # The fold moves on at every `await`. The rest has none, so all of it belongs to `last_seq`.
        marks = {} if owned else marks_of_open_runs(state, seen, now_ms=now_ms)
        if place.is_away:
            # A run that is only queued waits too, but one remark is enough for all that are.
            waiting = [*marks] or [run.run_id for run in state.open_runs][:1]
            marks = dict.fromkeys(waiting, waiting_text(place))
        elif lacking:
            marks = dict.fromkeys([run.run_id for run in state.open_runs][:1], needs_text(lacking))
        if not deps.supervisor.has_caught_up:
            marks = {run_id: text_while_recovering(said) for run_id, said in marks.items()}
        page, more_below = page_of(seen, before=before, limit=limit, reach=_reach(state, seen, before))
        answer = TranscriptPage(
            session_id=session_id,
            data=tuple(entry(one, state, seen, now_ms=now_ms, owned=owned) for one in page),
            has_more=bool(more_below),
            next_before=more_below or None,
            last_seq=seen.last_seq,
            runs=runs_of(state, seen, page, is_newest=not before),
            marks=marks,
            is_away=place.is_away,
        )
        if not before:
            live = {run_id: line for run_id, line in lines.items() if line}
            shown = listed(found, deps.marks)
            answer = replace(
                answer,
                **newest(state, seen),
                permission_mode=deps.modes.of(state),
                session=shown,
                live=live,
                versions=versions,
            )
        return json_response(answer)

    async def events(self, request: Request) -> Any:
        """GET /api/sessions/{session_id}/events."""
        deps = self._deps
        found = await session_of(deps, request)
        session_id = found.row.session_id
        epoch = found.row.epoch
        after = cursor_in(request, epoch=epoch, last_seq=await deps.store.last_seq(session_id))
        if "limit" in request.query_params:
            return await self._stretch(request, found.row, after)
        live = Live(
            lambda silent_s: deps.peers.lines(session_id, silent_s=silent_s),
            limits=deps.limits,
            view="native",
        )
        records = deps.store.follow(session_id, after=after)
        feed = SessionFeed(records, deps.list_changes, live=live)
        pace_s = whole_number(request, "pace_ms", default=0, most=PACE_MS_MAX) / 1000
        headers = [(EPOCH_HEADER, epoch.encode())]
        return EventStream(feed, deps.streams, limits=deps.limits, headers=headers, pace_s=pace_s)

    async def _stretch(self, request: Request, row: SessionRow, after: int) -> Response:
        """A part of the log at once, for clients that don't follow it."""
        session_id = row.session_id
        limit = whole_number(request, "limit", default=READ_AT_ONCE, most=READ_AT_ONCE)
        records = within(await self._deps.store.read(session_id, after=after, limit=limit))
        stretch = LogStretch(
            session_id=session_id,
            epoch=row.epoch,
            bytes=tuple(len(record.body) for record in records),
            last_seq=await self._deps.store.last_seq(session_id),
            events=(),
        )
        return raw_response(with_events(stretch, [numbered(record.seq, record.body) for record in records]))

    async def list_changes(self, request: Request) -> Any:
        """GET /api/events."""
        del request
        deps = self._deps
        feed = SessionListFeed(deps.list_changes)
        return EventStream(feed, deps.streams, limits=deps.limits)

    async def rewind(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/rewind."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, RewindRequest)
        found = await session_of(deps, request)
        session_id = found.row.session_id
        if not 1 <= wanted.to_seq <= await deps.store.last_seq(session_id):
            raise bad_request("'to_seq' isn't a seq of this session", param="to_seq")
        match await deps.inbox.rewind(session_id, wanted.to_seq):
            case "busy":
                why = "The session has an active run or queued messages. Stop the run, or clear the queue"
                raise Problem(409, why, code="session_busy")
            case "session_deleted":
                raise session_not_found(session_id)
            case None:
                pass
        return json_response(listed(await session_of(deps, request), deps.marks))

    async def fork(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/fork."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, ForkRequest)
        key = once_key(request, body, deps)
        if (earlier := await earlier_response(key, deps, status=201)) is not None:
            return earlier
        source = (await session_of(deps, request)).row
        source_id = source.session_id
        session_id = checked_session_id(wanted.session_id or wanted.id or new_session_id())
        last_seq = await deps.store.last_seq(source_id)
        at_seq = last_seq if wanted.at_seq is None else wanted.at_seq
        if not 1 <= at_seq <= last_seq:
            raise bad_request("'at_seq' isn't a seq of this session", param="at_seq")
        copied = await self._copied(source_id, at_seq, title=checked_title(wanted.title or source.title))
        answer = wrapped(
            Forked(
                id=session_id,
                session_id=session_id,
                forked_from=source_id,
                parent_session_id=source_id,
                at_seq=at_seq,
            )
        )
        for one in copied:
            if isinstance(one, e.GrantAdded) and one.scope == "session":
                await note_session_grant(deps.store, SessionGrant(session_id, one.grant_id))
        # The copied events of runs need no owner: nothing runs in a log that doesn't exist yet.
        result = await deps.store.append(
            session_id,
            cast("list[e.Input]", copied),
            when=[IfSessionNew()],
            idempotency_key=key.of(answer) if key else None,
        )
        return created_response(result, answer)

    async def _copied(self, source_id: str, at_seq: int, *, title: str) -> list[Event]:
        deps, now_ms = self._deps, self._deps.clock.now_ms()
        state = await deps.inbox.state(source_id)
        source = ForkSource(source_id, state, await deps.mode_access.of_fork(state, deps.modes))
        try:
            events = await forked_log(
                deps.store, source, at_seq=at_seq, judge=deps.modes.judge, now_ms=now_ms
            )
        except SourceGone as error:
            raise session_not_found(source_id) from error
        first = events[0]
        assert isinstance(first, e.SessionCreated), "a log begins with its creation"
        if first.source in {OPENAI, ONE_SHOT, RELAY, CHILD}:
            events[0] = replace(first, source="api")  # someone made this one to keep it, so it is listed
        return [*events, *([e.SessionRenamed(at_ms=now_ms, title=title)] if title else [])]

    async def export(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/export."""
        deps = self._deps
        found = await session_of(deps, request)
        session_id = found.row.session_id
        kind = request.query_params.get("format", "json")
        if kind not in {"json", "md", "html"}:
            raise bad_request("'format' must be json, md or html", param="format")
        headers = {"Content-Disposition": _disposition(found.row.title or found.row.preview, kind)}
        if kind == "md":
            pieces = markdown_in_pieces(*await deps.folds.session(session_id))
            return StreamingResponse(pieces, 200, headers, media_type="text/markdown")
        if kind == "html":
            from holdfast.server.sessions.html_export import html_in_pieces  # only this needs the renderer

            pieces = html_in_pieces(*await deps.folds.session(session_id), deps.store.blob)
            return StreamingResponse(pieces, 200, headers, media_type="text/html")
        pieces = json_of(deps.store, session_id, shown=listed(found, deps.marks))
        return StreamingResponse(pieces, 200, headers, media_type="application/json")


def _disposition(title: str, kind: str) -> str:
    """A download named after the chat; clients that read plain names only get `session`."""
    fits = "".join(char if char.isprintable() and char not in '\\/:*?"<>|%' else " " for char in title)
    name = " ".join(fits.split())[:_FILE_NAME_CHARS_MAX].strip(". ") or "session"
    return f"attachment; filename=\"session.{kind}\"; filename*=UTF-8''{quote(f'{name}.{kind}', safe='')}"


def _reach(state: Session, seen: Transcript, before: int) -> int:
    return 0 if before else unsettled_seq(state, seen)
