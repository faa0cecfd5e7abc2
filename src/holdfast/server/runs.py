"""The runs over HTTP: start, look, follow, stop."""

from typing import Any

import msgspec
from fastapi import Request, Response

from holdfast import session, transcript
from holdfast.interfaces import Store
from holdfast.rows import RunRow
from holdfast.run import Run
from holdfast.runner.inbox import Inbox, Message, Sent, new_session_id
from holdfast.server import hermes
from holdfast.server.problems import Problem, bad_request, run_not_found
from holdfast.server.stream import EventStream, Streams, hermes_frames, native_frames
from holdfast.session import Session
from holdfast.transcript import Transcript, output
from holdfast.values import HistoryMessage, RunSettings

SESSION_ID_CHARS_MAX = 256


class RunRequest(msgspec.Struct):
    """The body of POST /v1/runs."""

    input: str = ""
    session_id: str = ""
    instructions: str = ""
    model: str = ""
    conversation_history: list[HistoryMessage] | None = None
    metadata: dict[str, str] = {}


class RunRoutes:
    """What the routes under /v1/runs do."""

    def __init__(self, store: Store, inbox: Inbox, streams: Streams) -> None:
        self._store = store
        self._inbox = inbox
        self._streams = streams

    async def start(self, request: Request) -> Response:
        """POST /v1/runs."""
        body = _decoded(await request.body())
        settings = RunSettings(model=body.model, instructions=body.instructions, metadata=body.metadata)
        history = None if body.conversation_history is None else tuple(body.conversation_history)
        message = Message(text=body.input, settings=settings, history=history)
        sent = await self._inbox.send(body.session_id or new_session_id(), message)
        if not isinstance(sent, Sent):
            raise Problem(409, "The session is deleted", code="session_deleted", param="session_id")
        answer = {"run_id": sent.run_id, "status": "started", "session_id": sent.session_id}
        return _json(answer, 202)

    async def show(self, request: Request) -> Response:
        """GET /v1/runs/{run_id}."""
        row = await self._row(request)
        state, seen = await self._folded(row.session_id)
        return _json(shown(state.runs[row.run_id], row.session_id, seen))

    async def events(self, request: Request) -> Any:
        """GET /v1/runs/{run_id}/events."""
        row = await self._row(request)
        after = await self._cursor(request, row)
        if row.status == "ended" and after >= row.last_seq:
            return Response(status_code=204)
        frames = native_frames if request.query_params.get("view") == "native" else hermes_frames
        return EventStream(frames(self._store, row.session_id, run_id=row.run_id, after=after), self._streams)

    async def stop(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/stop."""
        row = await self._row(request)
        if not await self._inbox.stop(row.session_id, row.run_id):
            raise run_not_found(row.run_id)
        return _json({"run_id": row.run_id, "status": "stopping"})

    async def _row(self, request: Request) -> RunRow:
        run_id: str = request.path_params["run_id"]
        row = await self._store.run(run_id)
        if row is None:
            raise run_not_found(run_id)
        return row

    async def _cursor(self, request: Request, row: RunRow) -> int:
        """The seq to go on after; one that this log never gave out replays from the start."""
        given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        if not given.isascii() or not given.isdigit():
            return 0
        after = int(given[:18])
        return after if after <= await self._store.last_seq(row.session_id) else 0

    async def _folded(self, session_id: str) -> tuple[Session, Transcript]:
        state, seen = Session(), Transcript()
        while records := await self._store.read(session_id, after=state.last_seq):
            for record in records:
                session.apply(state, record.seq, record.event)
                transcript.apply(seen, record.seq, record.event)
        return state, seen


def shown(run: Run, session_id: str, seen: Transcript) -> dict[str, Any]:
    """A run as GET shows it."""
    answer: dict[str, Any] = {
        "object": "hermes.run",
        "run_id": run.run_id,
        "session_id": session_id,
        "status": hermes.STATUSES[run.outcome] if run.outcome else run.status,
        "created_at": run.created_ms / 1000,
        "updated_at": run.updated_ms / 1000,
        "model": run.settings.model,
        "last_event": hermes.last_event_name(run),
    }
    if text := output(seen, run.run_id):
        answer["output"] = text
    if run.outcome is not None:
        answer |= {"outcome": run.outcome, "usage": hermes.usage_of(run)}
    if run.outcome == "refused":
        answer["finish_reason"] = "refusal"
    if answer["status"] in {"failed", "interrupted"}:
        answer |= {"error": hermes.error_of(run), "code": run.cause or run.outcome}
    return answer


def _decoded(body: bytes) -> RunRequest:
    try:
        request = msgspec.json.decode(body, type=RunRequest)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("`$.")[2].rstrip("`") if "`$." in str(error) else None
        raise bad_request(f"Invalid request body: {error}", param=field) from error
    except msgspec.DecodeError as error:
        raise bad_request(f"Invalid JSON: {error}", code="invalid_json") from error
    if not request.input.strip():
        raise bad_request("Missing or empty 'input': say what the run is to do", param="input")
    if request.session_id and not _fits(request.session_id):
        raise bad_request(
            "'session_id' must be 1 to 256 printable characters without / and \\", param="session_id"
        )
    return request


def _fits(session_id: str) -> bool:
    return (
        len(session_id) <= SESSION_ID_CHARS_MAX
        and session_id.isprintable()
        and session_id not in {".", ".."}
        and not set(session_id) & {"/", "\\"}
    )


def _json(answer: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type="application/json")
