"""Responses as views of runs: made, shown again, hidden."""

from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.rows import RunRow
from holdfast.runner.inbox import Message, new_session_id
from holdfast.server.bodies import checked_session_id, json_answer, parsed, read_body
from holdfast.server.contents import Attached, content_of
from holdfast.server.continuing import continued, hidden_note, response_row, said_in
from holdfast.server.hangups import Hangups
from holdfast.server.means import ServerMeans
from holdfast.server.once import earlier_answer, once_key
from holdfast.server.openai_response_view import ResponseView, response_of
from holdfast.server.openai_shapes import (
    OpenAIFeed,
    OpenAIRequest,
    headers_of,
    is_failure,
    messages_in,
    problem_of_run,
    raw,
    source_of,
)
from holdfast.server.options import Limits
from holdfast.server.problems import bad_request, run_not_found
from holdfast.server.run_requests import HistoryItem, RawMessage, history_of
from holdfast.server.runs import RunRoutes
from holdfast.server.stream import EventStream
from holdfast.server.waiting import wait_for
from holdfast.values import HistoryMessage

History: TypeAlias = tuple[HistoryMessage, ...]


class Conversation(msgspec.Struct):
    """`conversation` as an object."""

    id: str


class ResponsesRequest(OpenAIRequest, kw_only=True):
    """The body of POST /v1/responses; what is not named here is ignored."""

    input: str | list[RawMessage]
    instructions: str | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None


class OpenAIResponsesRoutes:
    """What the routes under /v1/responses do."""

    def __init__(self, means: ServerMeans, runs: RunRoutes, hangups: Hangups) -> None:
        self._means = means
        self._runs = runs
        self._hangups = hangups

    async def create(self, request: Request) -> Any:
        """POST /v1/responses."""
        means = self._means
        body = await read_body(request, means.limits)
        wanted = await parsed(body, means.limits, ResponsesRequest)
        key = once_key(request, body, means)
        sent = await earlier_answer(key, means, status=202)
        if sent is None:
            session_id, message = await self._message(request, wanted)
            sent = await self._runs.send(session_id, message, key=key)
        row = await self._runs.row_of_sent(sent)
        view = ResponseView(row, wanted.model or means.options.model, previous=wanted.previous_response_id)
        if wanted.store is False:
            await means.store.put_note(hidden_note(row.session_id, view.id), b"not stored")
        headers = headers_of(row, sent)
        on_left = None if wanted.on_disconnect == "detach" else self._hangups.read_by(row)
        if not wanted.stream:
            frames = await wait_for(means, row, request, on_left=on_left)
            if is_failure(frames.known_run):
                problem = problem_of_run(frames.known_run)
                return json_answer(problem.body, problem.status, headers=headers)
            return json_answer(view.response(frames), headers=headers)
        feed = OpenAIFeed(means.store.follow(row.session_id, after=row.first_seq - 1), row, view=view)
        return EventStream(feed, means.streams, limits=means.limits, headers=raw(headers), on_left=on_left)

    async def _message(self, request: Request, wanted: ResponsesRequest) -> tuple[str, Message]:
        """The session to go on in, and what is said there."""
        items, said = _items(wanted.input, self._means.limits)
        if not items or items[-1].role != "user":
            raise bad_request("The last of 'input' must be the user's", param="input")
        attached: Attached = {}
        text, parts = content_of(items[-1].content, param="input", attached=attached)
        if not text.strip() and not parts:
            raise bad_request("Missing or empty 'input': say what is wanted", param="input")
        before = history_of(items[:-1], self._means.limits, param="input", attached=attached)
        given = _conversation(wanted) or request.headers.get("x-hermes-session-id") or ""
        source = source_of("" if wanted.previous_response_id else given)
        session_id, history = await self._going_on(wanted, given, before)
        instructions = "\n\n".join(one for one in (wanted.instructions, said) if one)
        settings = wanted.settings(instructions)
        message = Message(
            text=text, parts=parts, settings=settings, history=history, source=source, attached=attached
        )
        return checked_session_id(session_id or new_session_id()), message

    async def _going_on(
        self, wanted: ResponsesRequest, session_id: str, before: History
    ) -> tuple[str, History | None]:
        """The session to go on in, and the history that the run has instead of the session's, if it has one.

        What comes before the last item is new where a conversation or a response goes on; a client that only
        names its session sends all that it wants to be known.
        """
        earlier: History | None = None
        if wanted.previous_response_id:
            session_id, earlier = await continued(self._means, wanted.previous_response_id)
        elif not _conversation(wanted):
            return session_id, before or (None if session_id else ())
        if not before:
            return session_id, earlier
        return session_id, (*(earlier or await said_in(self._means, session_id)), *before)

    async def show(self, request: Request) -> Response:
        """GET /v1/responses/{response_id}."""
        row = await self._row(request)
        frames = (await self._means.folds.run(row)).frames
        run = frames.run
        if run is None:
            raise run_not_found(row.run_id)
        model = run.settings.model or self._means.options.model
        return json_answer(response_of(row, model, frames=frames))

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/responses/{response_id}."""
        row = await self._row(request)
        response: str = request.path_params["response_id"]
        await self._means.store.put_note(hidden_note(row.session_id, response), b"deleted")
        return json_answer({"id": response, "object": "response.deleted", "deleted": True})

    async def _row(self, request: Request) -> RunRow:
        return await response_row(self._means, request.path_params["response_id"], param="response_id")


def _conversation(wanted: ResponsesRequest) -> str:
    """The conversation's name, if there is one."""
    named = wanted.conversation
    return named.id if isinstance(named, Conversation) else named or ""


def _items(given: str | list[dict[str, Any]], limits: Limits) -> tuple[list[HistoryItem], str]:
    """The messages among the input items; tool items are the server's own affair."""
    if isinstance(given, str):
        return [HistoryItem("user", given)], ""
    said = [item for item in given if item.get("type", "message") == "message"]
    return messages_in(said, limits, param="input")
