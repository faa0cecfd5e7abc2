"""The queue of a session over HTTP: show and change what waits."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.sessions import ChangeMessageRequest, QueuedMessage, QueueShown
from holdfast.folds.inputs import MessageState, SessionMessage
from holdfast.folds.session import Session
from holdfast.runner.inbox import NotSent
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request, session_not_found
from holdfast.server.runs.requests import not_sent
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import decoded, json_response, read_body

POSITION_MAX = 1_000_000  # beyond any queue: its end


class QueueRoutes:
    """The routes under /api/sessions/{session_id}/queue."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/queue."""
        session_id = (await session_of(self._deps, request)).row.session_id
        return json_response(_shown(await self._deps.inbox.state(session_id)))

    async def change(self, request: Request) -> Response:
        """PATCH /api/sessions/{session_id}/queue/{message_id}."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, ChangeMessageRequest)
        session_id = (await session_of(deps, request)).row.session_id
        message = await self._message(session_id, request)
        now_ms = deps.clock.now_ms()
        if wanted.text is not None:
            if not wanted.text.strip():
                raise bad_request(
                    "'text' is empty. To drop the message, remove it from the queue", param="text"
                )
            if await deps.inbox.edit(session_id, message.message_id, wanted.text) is None:
                raise _not_waiting()
        if wanted.position is not None:
            position = min(max(0, wanted.position), POSITION_MAX)
            moved = e.MessageMoved(at_ms=now_ms, message_id=message.message_id, position=position)
            await self._apply(session_id, moved)
        if wanted.steer:
            message = await self._message(session_id, request)
            if message.state is not MessageState.QUEUED:
                raise _not_waiting()
            if not await deps.inbox.steer_with_queued(session_id, message):
                raise not_sent(NotSent("run_over"))
        return json_response(_shown(await deps.inbox.state(session_id)))

    async def remove(self, request: Request) -> Response:
        """DELETE /api/sessions/{session_id}/queue/{message_id}."""
        deps = self._deps
        session_id = (await session_of(deps, request)).row.session_id
        message = await self._message(session_id, request)
        await self._apply(
            session_id, e.MessageRemoved(at_ms=deps.clock.now_ms(), message_id=message.message_id)
        )
        return json_response(_shown(await deps.inbox.state(session_id)))

    async def pause(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/queue/pause."""
        return await self._put(request, e.QueuePaused(at_ms=self._deps.clock.now_ms()))

    async def resume(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/queue/resume."""
        return await self._put(request, e.QueueResumed(at_ms=self._deps.clock.now_ms()))

    async def clear(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/queue/clear."""
        deps = self._deps
        session_id = (await session_of(deps, request)).row.session_id
        state = await deps.inbox.state(session_id)
        now_ms = deps.clock.now_ms()
        removed = [e.MessageRemoved(at_ms=now_ms, message_id=one) for one in state.inbox.queue]
        return await self._put(request, *removed, e.QueueResumed(at_ms=now_ms))

    async def _put(self, request: Request, *inputs: e.Input) -> Response:
        await read_body(request, self._deps.limits)
        session_id = (await session_of(self._deps, request)).row.session_id
        if not await self._deps.inbox.put(session_id, *inputs):
            raise session_not_found(session_id)
        return json_response(_shown(await self._deps.inbox.state(session_id)))

    async def _message(self, session_id: str, request: Request) -> SessionMessage:
        message_id: str = request.path_params["message_id"]
        found = (await self._deps.inbox.state(session_id)).inbox.messages.get(message_id)
        if found is None:
            raise Problem(
                404, "The session has no message with this id", code="message_not_found", param="message_id"
            )
        return found

    async def _apply(self, session_id: str, change: e.MessageMoved | e.MessageRemoved) -> None:
        if await self._deps.inbox.change_message(session_id, change) is None:
            raise _not_waiting()


def _not_waiting() -> Problem:
    return Problem(409, "This message is no longer in the queue", code="message_not_waiting")


def _shown(state: Session) -> QueueShown:
    return QueueShown(
        paused=state.queue_paused,
        data=tuple(
            QueuedMessage(
                message_id=one.message_id,
                run_id=one.run_id,
                text=one.text,
                parts=one.parts,
                mode=one.mode,
                state=one.state.value,
                position=state.inbox.position(one.message_id),
                client_id=one.client_id,
                created_at=one.at_ms / 1000,
            )
            for one in state.inbox.waiting()
        ),
    )
