"""Responses as views of runs: made, shown again, followed again, cancelled, hidden."""

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.openai.bodies import DeletedResponse, ResponsesRequest
from holdfast.features.openai.conversations import resolve_references
from holdfast.features.openai.items import input_items
from holdfast.features.openai.models import sampling_of
from holdfast.features.openai.parameters import RESPONSES, ignored_fields, ignored_header, responses_output
from holdfast.features.openai.response_view import ResponseContext, ResponseView, response_of
from holdfast.features.openai.shapes import (
    OpenAIFeed,
    OpenAIStream,
    failed_response,
    page_of,
    response_failed,
    settings_of,
    source_of,
)
from holdfast.features.openai.shared_routes import SharedRoutes
from holdfast.folds.entries import ToolCard
from holdfast.folds.rows import RunRow
from holdfast.interfaces.ids import new_session_id
from holdfast.interfaces.journal import JournalError
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import is_hermes
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_messages import ClientInput, client_of, named_session, parse_messages
from holdfast.server.runs.client_tools import (
    Declared,
    declared_tools,
    give_up_waiting,
    resumed_run,
)
from holdfast.server.runs.history import (
    await_continuation,
    await_given_history,
    await_session_history,
    hidden_note,
    response_begins_after,
    response_id,
    response_row,
)
from holdfast.server.runs.requests import given_history, headers_of, raw_headers
from holdfast.server.streams.waiting import NO_RETRY, ResponseSpan, result_so_far, wait_for
from holdfast.server.transport.bodies import checked_session_id, flag, json_response, parsed, read_body
from holdfast.server.transport.once import OnceKey, earlier_response, once_key
from holdfast.values import HistoryMessage

_log = logging.getLogger(__name__)

History: TypeAlias = tuple[HistoryMessage, ...]


class ResponseNote(msgspec.Struct, omit_defaults=True):
    """Parameters of a response that its run doesn't store, in a note that is purged with the session."""

    previous: str | None = None
    conversation: str | None = None
    background: bool = False


class OpenAIResponsesRoutes:
    """The routes under /v1/responses."""

    def __init__(self, parts: RouteParts) -> None:
        shared = parts.routes(SharedRoutes)
        self._deps = parts.deps
        self._runs = parts.runs
        self._disconnects = parts.disconnects
        self._repeats = shared.repeats
        self._names = shared.names

    async def create(self, request: Request, body: bytes) -> Any:
        """POST /v1/responses for an agent."""
        deps = self._deps
        wanted = await parsed(body, deps.limits, ResponsesRequest)
        ignored = await ignored_fields(body, RESPONSES)
        await self._names.insist_on_agent(wanted.model, request)
        key = once_key(request, body, deps)
        if wanted.stream:
            with deps.streams.reserve(deps.limits.subscribers_max) as place:
                row, context, headers = await self._rejoin_or_start(request, body, wanted, key)
                headers.update(ignored_header(ignored))
                feed = self._feed(row, context, ResponseView(row, context))
                then = self._left(row, wanted)
                left = self._repeats.when_left(request, body, row=row, feed=feed, then=then)
                return place.assign_to(
                    OpenAIStream(
                        feed, deps.streams, limits=deps.limits, headers=raw_headers(headers), on_left=left
                    )
                )
        row, context, headers = await self._rejoin_or_start(request, body, wanted, key)
        headers.update(ignored_header(ignored))
        if wanted.background:
            return json_response(response_of(row, context, await self._span(row, context)), headers=headers)
        with self._repeats.rejoinable(request, body, row=row, after=context.after):
            ended = await wait_for(
                deps,
                row,
                request,
                after=context.after,
                stops_at_asks=not context.by_hermes,
                on_left=self._left(row, wanted),
            )
        if response_failed(ended):
            return failed_response(ended.run.state, headers)
        return json_response(response_of(row, context, ended), headers=headers)

    async def _rejoin_or_start(
        self, request: Request, body: bytes, wanted: ResponsesRequest, key: OnceKey | None
    ) -> tuple[RunRow, ResponseContext, dict[str, str]]:
        """The run that the request starts, or that it started before and lost."""
        if (abandoned := self._repeats.take_abandoned(request, body)) is None:
            return await self._start(request, wanted, key)
        context = await self._store_note(abandoned.row, wanted, after=abandoned.after)
        return abandoned.row, self._for(request, abandoned.row, context), headers_of(abandoned.row, None)

    async def _start(
        self, request: Request, wanted: ResponsesRequest, key: OnceKey | None
    ) -> tuple[RunRow, ResponseContext, dict[str, str]]:
        """The run that has the message, what it was asked with, and the headers that name it."""
        deps, client = self._deps, client_of(request)
        if (sent := await earlier_response(key, deps, status=202)) is not None:
            return await self._stored(request, wanted, sent)
        said, declared = await self._said(wanted), declared_tools(wanted.tools, wanted.tool_choice)
        resumed = (
            await resumed_run(deps, said, declared, client=client, param="input") if said.results else None
        )
        if resumed is not None:
            context = await self._store_note(resumed.row, wanted, after=resumed.after)
            return resumed.row, self._for(request, resumed.row, context), headers_of(resumed.row, None)
        session_id, message = await self._message(request, wanted, said=said, declared=declared)
        return await self._stored(request, wanted, await self._runs.send(session_id, message, key=key))

    async def _stored(
        self, request: Request, wanted: ResponsesRequest, sent: Sent | Response
    ) -> tuple[RunRow, ResponseContext, dict[str, str]]:
        """The same for a run that was accepted, now or under the same key earlier."""
        row = await self._runs.row_of_sent(sent)
        context = self._for(request, row, await self._store_note(row, wanted))
        return row, context, headers_of(row, sent)

    def _for(self, request: Request, row: RunRow, context: ResponseContext) -> ResponseContext:
        """The same, as this client sees it."""
        page = page_of(request, row.session_id, self._deps.options)
        return replace(context, by_hermes=is_hermes(request), page=page)

    def _left(self, row: RunRow, wanted: ResponsesRequest) -> Callable[[], None] | None:
        """Return a callback for a disconnect, if the run should end then."""
        return None if wanted.is_detached else self._disconnects.read_by(row)

    def _feed(self, row: RunRow, context: ResponseContext, view: ResponseView) -> OpenAIFeed:
        return OpenAIFeed(self._deps.store, self._deps.folds, row, view=view, after=context.after)

    async def _span(self, row: RunRow, context: ResponseContext) -> ResponseSpan:
        """As much of the run as the response tells."""
        fold = await self._deps.folds.run(row)
        if not fold.view.client_asks:
            return ResponseSpan(fold, used=fold.state.usage)
        return await result_so_far(self._deps, row, after=context.after)

    async def _said(self, wanted: ResponsesRequest) -> ClientInput:
        if isinstance(wanted.input, str) and not wanted.input.strip():
            raise bad_request("Missing or empty 'input': describe what the model should do", param="input")
        await self._deps.put_images_inline(wanted.input, param="input")
        return parse_messages(
            await resolve_references(self._deps, wanted.input), self._deps.limits, param="input"
        )

    async def _message(
        self, request: Request, wanted: ResponsesRequest, *, said: ClientInput, declared: Declared
    ) -> tuple[str, IncomingMessage]:
        """The session to continue in, and the message."""
        client = client_of(request)
        if wanted.previous_response_id and wanted.conversation_name:
            raise bad_request(
                "You can't use 'previous_response_id' and 'conversation' together", param="conversation"
            )
        if wanted.background and wanted.store is False:
            raise bad_request("A background response must be stored", param="store")
        attached = dict(said.attached)
        given = wanted.conversation_name
        given = checked_session_id(given, param="conversation") if given else named_session(request)
        source = source_of("" if wanted.previous_response_id else given)
        if wanted.conversation_history:
            earlier = given_history(wanted.conversation_history, self._deps.limits, attached=attached)
            session_id, history = given, (*earlier, *said.before)
        else:
            if wanted.previous_response_id:
                earlier_run = await response_row(
                    self._deps, wanted.previous_response_id, param="previous_response_id"
                )
                await give_up_waiting(
                    self._deps, earlier_run.session_id, said=said, client=client, param="input"
                )
            await give_up_waiting(self._deps, given, said=said, client=client, param="input")
            session_id, history = await self._going_on(wanted, given, said.before)
        message = IncomingMessage(
            text=said.text,
            parts=said.parts,
            settings=settings_of(
                request,
                wanted,
                "\n\n".join(one for one in (wanted.instructions, said.instructions) if one),
                declared=declared,
                sampling=sampling_of(wanted),
                output=await responses_output(wanted.text),
            ),
            history=history,
            source=source,
            attached=attached,
        )
        return session_id or new_session_id(), message

    async def _going_on(
        self, wanted: ResponsesRequest, session_id: str, before: History
    ) -> tuple[str, History | None]:
        """The session to continue in, and the history that replaces the session's, if there is one.

        If a conversation or a response continues, the items before the last one are new. A client that only
        names its session sends the whole history.
        """
        earlier: History | None = None
        if wanted.previous_response_id:
            session_id, earlier = await await_continuation(self._deps, wanted.previous_response_id)
        elif not wanted.conversation_name and (before or not session_id):
            return session_id, before
        elif await self._deps.store.session(session_id) is not None:
            earlier = await await_given_history(self._deps, session_id)
        if not before:
            return session_id, earlier
        return session_id, (*(earlier or await await_session_history(self._deps, session_id)), *before)

    async def _store_note(self, row: RunRow, wanted: ResponsesRequest, *, after: int = 0) -> ResponseContext:
        """Store the parameters of the response for later readers."""
        store, response = self._deps.store, response_id(row.run_id, after=after)
        if wanted.store is False:
            try:
                await store.put_note(hidden_note(row.session_id, response), b"not stored")
            except JournalError as error:
                text = f"The run continues, but hiding its response failed: {error}"
                headers = {**NO_RETRY, "X-Hermes-Run-Id": row.run_id}
                raise Problem(503, text, code="store_unavailable", headers=headers) from error
        note = ResponseNote(
            previous=wanted.previous_response_id or None,
            conversation=wanted.conversation_name or None,
            background=bool(wanted.background),
        )
        if note != ResponseNote():
            try:
                await store.put_note(_note_name(row.session_id, response), msgspec.json.encode(note))
            except JournalError as error:
                # The run is accepted: an error now would have it sent a second time.
                _log.warning("the request of response %s isn't stored: %s", response, error)
        context = await self._context(row, note, after=after)
        return replace(context, is_stored=wanted.store is not False)

    async def _context(self, row: RunRow, note: ResponseNote, *, after: int) -> ResponseContext:
        fold = await self._deps.folds.run(row)
        settings = fold.state.settings
        earlier = [entry for entry in fold.view.entries if isinstance(entry, ToolCard) and entry.seq <= after]
        return ResponseContext(
            settings.model or self._deps.options.model,
            settings,
            previous=note.previous,
            conversation=note.conversation,
            is_background=note.background,
            after=after,
            calls_before=len(earlier),
        )

    async def _load(self, request: Request) -> tuple[RunRow, ResponseContext]:
        """The response that the path names; raises a Problem if there is none that may be seen."""
        response: str = request.path_params["response_id"]
        row = await response_row(self._deps, response, param="response_id")
        stored = await self._deps.store.note(_note_name(row.session_id, response))
        note = ResponseNote() if stored is None else msgspec.json.decode(stored, type=ResponseNote)
        context = await self._context(row, note, after=response_begins_after(response))
        return row, self._for(request, row, context)

    async def show(self, request: Request) -> Any:
        """GET /v1/responses/{response_id}, whole or as the stream that it was from any event on."""
        deps, after = self._deps, _after(request)
        row, context = await self._load(request)
        if not flag(request, "stream"):
            return json_response(response_of(row, context, await self._span(row, context)))
        view = ResponseView(row, context, after=after)
        on_left = await self._runs.read_by(row)
        return OpenAIStream(self._feed(row, context, view), deps.streams, limits=deps.limits, on_left=on_left)

    async def input_items(self, request: Request) -> Response:
        """GET /v1/responses/{response_id}/input_items."""
        row, _ = await self._load(request)
        return json_response(await input_items(self._deps, row, request))

    async def cancel(self, request: Request) -> Response:
        """POST /v1/responses/{response_id}/cancel."""
        deps = self._deps
        await read_body(request, deps.limits)
        row, context = await self._load(request)
        if await deps.inbox.stop(row.session_id, row.run_id, by=request.scope[KEY_NAME]):
            await wait_for(deps, row, request, after=(await deps.folds.run(row)).state.last_seq - 1)
        return json_response(response_of(row, context, await self._span(row, context)))

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/responses/{response_id}."""
        row, _ = await self._load(request)
        await self._deps.workspaces.check_run(row)
        response: str = request.path_params["response_id"]
        await self._deps.store.put_note(hidden_note(row.session_id, response), b"deleted")
        return json_response(DeletedResponse(id=response, object="response.deleted", deleted=True))


def _note_name(session_id: str, response: str) -> str:
    return f"session/{session_id}/response/{response}"


def _after(request: Request) -> int:
    """The number of the last event that the reader has; -1 is none."""
    given = request.query_params.get("starting_after")
    if given is None:
        return -1
    if not (given.isascii() and given.isdigit()):
        raise bad_request("'starting_after' must be the number of an event", param="starting_after")
    return int(given[:18])
