"""Runs over HTTP: start, show, list and follow them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.agent.capabilities import needs_text
from holdfast.agent.placement import waiting_text
from holdfast.api.live import SessionLive
from holdfast.api.runs import STATUS_FILTERS, RunListed, RunPage, RunRequest, RunShown, Started
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.transcript import interruption_text, text_while_recovering
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import KeyConflict, Replayed
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.server.access.caller import caller_name
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import keep_attached, without_secrets
from holdfast.server.problems import bad_request, run_not_found
from holdfast.server.runs.history import await_continuation, await_session_history
from holdfast.server.runs.listing import preview_of, previews_of, refusals_of, runs_with
from holdfast.server.runs.requests import (
    check_options,
    message_of,
    not_sent,
    reserved_place,
    started,
    target_named,
    with_agent,
)
from holdfast.server.runs.run_report import STATUSES
from holdfast.server.runs.run_state import run_shown, run_state, status_of, waiting_for
from holdfast.server.streams import hermes
from holdfast.server.streams.feeds import Live, RunFeed, View
from holdfast.server.streams.shared_frames import HermesFeed
from holdfast.server.streams.stream import EventStream
from holdfast.server.streams.waiting import HermesPoll, NativePoll, polled_response
from holdfast.server.transport.bodies import (
    json_response,
    parsed,
    raw_response,
    read_body,
    whole_number,
)
from holdfast.server.transport.once import OnceKey, earlier_response, once_for, once_key, replayed
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.values import Part

PAGE_MAX = 200


async def put_images_inline(deps: RouteDeps, wanted: RunRequest) -> None:
    """Fetch the images that a request names by their addresses; raises a Problem."""
    earlier = [item.content for item in wanted.conversation_history or ()]
    given = {"input": wanted.input, "message": wanted.message, "conversation_history": earlier}
    for name, value in given.items():
        await deps.put_images_inline(value, param=name)


async def row_of(deps: RouteDeps, request: Request) -> RunRow:
    """The run that the path names; raises a Problem."""
    return await known_run(deps, request.path_params["run_id"])


async def known_run(deps: RouteDeps, run_id: str) -> RunRow:
    """The run with this id; raises a Problem if there is none."""
    row = await deps.store.run(run_id)
    if row is None:
        raise run_not_found(run_id)
    return row


class RunRoutes:
    """The routes under /v1/runs, except those that send input to a run."""

    def __init__(self, deps: RouteDeps, disconnects: Disconnects) -> None:
        self._deps = deps
        self._disconnects = disconnects

    async def start(self, request: Request) -> Response:
        """POST /v1/runs."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, RunRequest)
        if (earlier := await earlier_response(once_key(request, body, deps), deps, status=202)) is not None:
            return earlier
        await put_images_inline(deps, wanted)
        if wanted.provider:
            wanted.model = target_named(wanted.provider, wanted.model or "", deps.options.targets).name
        message = message_of(wanted, deps.limits)
        key = once_for(request, body, deps, session_id=wanted.session_id or "", message=message)
        if (earlier := await earlier_response(key, deps, status=202)) is not None:
            return earlier
        session_id = wanted.session_id
        if wanted.previous_response_id:
            going_on, history = await await_continuation(deps, wanted.previous_response_id)
            session_id = session_id or going_on
            if history is None and session_id != going_on:
                history = await await_session_history(deps, going_on)
            message = replace(message, history=message.history or history)
        sent = await self.send(session_id or "", message, key=key)
        return json_response(started(sent), 202) if isinstance(sent, Sent) else sent

    async def send(
        self, session_id: str, message: IncomingMessage, *, key: OnceKey | None
    ) -> Sent | Response:
        """Store the message, in a new session if none is named; a repeated key gets its stored response."""
        deps = self._deps
        if message.settings.purpose == "command":
            deps.mode_access.check_command()
        if message.permission_mode:
            await deps.mode_access.check_in(session_id, message.permission_mode, deps.modes)
        async with reserved_place(deps):
            message = await with_agent(deps, await self._placed(session_id, message))
            check_options(message.settings, deps.options.targets)
            message = await without_secrets(message, deps.redactor)
            await keep_attached(deps, _parts_of(message), attached=message.attached)
            once = key.for_sent(started) if key else None
            result = await deps.inbox.send(session_id, message, once=once)
        # Also after a repeated request, because the first one may not have got this far.
        if message.permission_mode and isinstance(result, Sent | Replayed):
            set_in = result.session_id if isinstance(result, Sent) else session_id
            await deps.modes.tighten_children(set_in, by=caller_name())
        match result:
            case Sent():
                return result
            case NotSent():
                raise not_sent(result)
            case Replayed() | KeyConflict():
                return replayed(result, status=202)

    async def _placed(self, session_id: str, message: IncomingMessage) -> IncomingMessage:
        """The message with the workspace of its run; raises a Problem if the caller can't choose it.

        Naming another folder doesn't help: every later run of the session reads the message, too.
        """
        access = self._deps.workspaces
        if session_id:
            await access.check_session(session_id)
        return message.in_workspace(await access.for_run(session_id, message.settings.workspace))

    async def row_of_sent(self, sent: Sent | Response) -> RunRow:
        """The run that `send` began, now or under the same key earlier."""
        known = sent if isinstance(sent, Sent) else msgspec.json.decode(sent.body, type=Started)
        return await known_run(self._deps, known.run_id)

    async def show(self, request: Request) -> Response:
        """GET /v1/runs/{run_id}."""
        row = await row_of(self._deps, request)
        return json_response(await self.shown(row))

    async def shown(self, row: RunRow) -> RunShown:
        """A run as GET shows it."""
        state = run_state(await self._deps.folds.run(row), row)
        more: dict[str, Any] = {"preview": await preview_of(self._deps.store, row)}
        live = await self._deps.peers.live(row.session_id)
        jobs = tuple(job for job in live.background if job.run_id == row.run_id)
        more |= {"live": live.lines.get(row.run_id, ""), "background": jobs}
        turn = _turn(live, row.run_id)
        if state.status == "queued":
            more |= {"queue_position": await self._position(row, live)} | turn
            if lacking := await self._deps.supervisor.lacking(row.session_id):
                more["mark"] = needs_text(lacking)
        elif state.status == "running" and turn:
            # Active before the server's restart, and not resumed yet.
            more |= turn | {"status": "queued"}
        elif (row.outcome or "interrupted") == "interrupted":
            more["mark"] = await self._mark(row)
        if row.outcome is None and not live.known and not more.get("mark"):
            more["mark"] = (
                f"Server {live.server or 'of this run'} isn't responding, so the run's status is unknown"
            )
        return run_shown(state, **more)

    async def _position(self, row: RunRow, live: SessionLive) -> int:
        """The run's place in its session's queue, behind runs that have waited longer for a slot."""
        state = await self._deps.inbox.state(row.session_id)
        known = state.runs.get(row.run_id)
        position = state.inbox.position(known.message_id) if known else 0
        if not position:
            return 0
        first = state.inbox.messages[state.inbox.queue[0]]
        turn = live.queue.get(first.run_id)
        return position + (turn.position - 1 if turn is not None else 0)

    def _turn(self, run_id: str) -> dict[str, Any]:
        """The position and reason of a waiting run."""
        turn = self._deps.supervisor.resources.queue_position(run_id)
        return {} if turn is None else {"queue_position": turn.position, "queue_reason": turn.why}

    async def _mark(self, row: RunRow) -> str:
        """The remark on a run that was interrupted, or that isn't being executed."""
        deps = self._deps
        place = await deps.supervisor.place(row.session_id)
        if row.outcome is None and (place.owner or place.is_away):
            return waiting_text(place) if place.is_away else ""
        if row.outcome is None and (lacking := await deps.supervisor.lacking(row.session_id)):
            return needs_text(lacking)
        _, seen = await deps.folds.session(row.session_id)
        said = interruption_text(seen, row.run_id, now_ms=deps.clock.now_ms(), owner_gone=not place.owner)
        if said and row.outcome is None and not deps.supervisor.has_caught_up:
            said = text_while_recovering(said)
        return said or ""

    async def list(self, request: Request) -> Response:
        """GET /v1/runs."""
        query = request.query_params
        limit = whole_number(request, "limit", default=50, most=PAGE_MAX)
        wanted = runs_with(query.get("status", ""))
        if wanted is None:
            known = ", ".join(STATUS_FILTERS)
            raise bad_request(
                f"'status' must be one of {known}, not {query['status'][:40]!r}", param="status"
            )
        rows = await self._deps.store.runs(
            RunQuery(
                limit=limit + 1,
                before=_cursor(query.get("cursor", "")),
                session_id=query.get("session_id", ""),
                **wanted,
            )
        )
        page = rows[:limit]
        previews = await previews_of(self._deps.store, page)
        refusals = await refusals_of(self._deps.store, page)
        data = [
            await self._listed(row, previews[row.run_id], refused=refusals.get(row.run_id, 0)) for row in page
        ]
        last = page[-1] if len(rows) > limit else None
        next_cursor = f"{last.created_ms}:{last.run_id}" if last else None
        return json_response(RunPage(data=tuple(data), has_more=last is not None, next_cursor=next_cursor))

    async def _listed(self, row: RunRow, preview: str, *, refused: int) -> RunListed:
        """A run in a list: what its row says, and whether it waits for someone."""
        status: str = STATUSES[row.outcome] if row.outcome else row.status
        awaited, outcome = None, row.outcome
        if status == "running" and not row.outcome:
            state = (await self._deps.folds.run(row)).state  # it may have ended since the row was read
            status, awaited, outcome = status_of(state), waiting_for(state), state.outcome
        turn = self._turn(row.run_id) if status in {"queued", "running"} else {}
        return RunListed(
            run_id=row.run_id,
            session_id=row.session_id,
            status="queued" if turn else status,
            created_at=row.created_ms / 1000,
            updated_at=row.updated_ms / 1000,
            model=row.model,
            preview=preview,
            outcome=outcome,
            waiting_for=awaited,
            refused_actions=refused,
            **turn,
        )

    async def events(self, request: Request) -> Any:
        """GET /v1/runs/{run_id}/events."""
        deps = self._deps
        row = await row_of(deps, request)
        view = _view(request)
        given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        if "cursor" in request.query_params or _wants_json(request):
            is_web_ui = request.headers.get("user-agent", "").lower().startswith(hermes.WEB_UI_AGENT)
            names: Mapping[str, str] = hermes.WEB_UI_NAMES if is_web_ui else {}
            given = request.query_params.get("cursor") or given
            return await self._polled(row, view, given=given, names=names)
        after = await self._after(row, given)
        if after and row.status == "ended" and after >= (await deps.folds.run(row)).terminal_seq:
            return Response(status_code=204)
        live = self._live(row, view)
        if view == "native":
            feed = RunFeed(deps.store, row, after=after, live=live)
        else:
            frames = await deps.folds.frames(row)
            feed = HermesFeed(deps.store, row, after=after, live=live, frames=frames)
        on_left = await self.read_by(row)
        return EventStream(feed, deps.streams, limits=deps.limits, on_left=on_left)

    async def read_by(self, row: RunRow) -> Callable[[], None] | None:
        """Count one more reader; returns what to call when it's gone, if the run ends with its readers.

        Only runs with on_disconnect = cancel end with their readers.
        """
        if row.status == "ended":
            return None
        first = await self._deps.store.read(row.session_id, after=row.first_seq - 1, limit=1)
        event = first[0].event if first else None
        ends_with_them = isinstance(event, e.RunQueued) and event.settings.on_disconnect == "cancel"
        if not ends_with_them and not self._disconnects.lives_for_readers(row.run_id):
            return None
        return self._disconnects.read_by(row)

    def _live(self, row: RunRow, view: View) -> Live:
        def lines(silent_s: float) -> dict[str, str] | None:
            known = self._deps.peers.lines(row.session_id, silent_s=silent_s)
            if known is None:
                return None
            return {row.run_id: known[row.run_id]} if row.run_id in known else {}

        return Live(lines, limits=self._deps.limits, view=view)

    async def _polled(self, row: RunRow, view: View, *, given: str, names: Mapping[str, str]) -> Response:
        after = await self._after(row, given)
        if view == "native":
            poll = NativePoll(row, after=after)
        else:
            frames = await self._deps.folds.polled_frames(row)
            poll = HermesPoll(row, frames, after=after, names=names)
        return raw_response(await polled_response(self._deps.store, row, poll, after=after))

    async def _after(self, row: RunRow, given: str) -> int:
        """The seq to continue after; an unknown cursor replays from the start."""
        if not (given.isascii() and given.isdigit()):
            return 0
        after = int(given[:18])
        if after < row.first_seq:
            return 0
        found = await self._deps.store.read(row.session_id, after=after - 1, limit=1)
        if found and found[0].seq > after:
            # A delta that was joined to one before it; within a run that is over it was that run's own.
            return after if row.status == "ended" and after < row.last_seq else 0
        return after if found and run_of(found[0].event) == row.run_id else 0


def _turn(live: SessionLive, run_id: str) -> dict[str, Any]:
    """The position and reason of a waiting run."""
    turn = live.queue.get(run_id)
    return {} if turn is None else {"queue_position": turn.position, "queue_reason": turn.why}


def _parts_of(message: IncomingMessage) -> list[Part]:
    """All that the message and its history refer to."""
    return [*message.parts, *(part for earlier in message.history or () for part in earlier.parts)]


def _cursor(given: str) -> tuple[int, str] | None:
    if not given:
        return None
    created_ms, _, run_id = given.partition(":")
    if not (created_ms.isascii() and created_ms.isdigit() and run_id):
        raise bad_request("'cursor' is invalid; use next_cursor from the previous page", param="cursor")
    return int(created_ms[:18]), run_id


def _view(request: Request) -> View:
    view = request.query_params.get("view", "hermes")
    if view not in {"hermes", "native"}:
        raise bad_request("'view' must be hermes or native", param="view")
    return "native" if view == "native" else "hermes"


def _wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/event-stream" not in accepted
