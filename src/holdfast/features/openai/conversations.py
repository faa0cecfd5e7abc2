"""Conversations of the Responses protocol: sessions, and their transcripts as items.

Input items of a response; a client may refer to an earlier item by its id instead of sending it.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.runs import RawInput
from holdfast.features.openai.bodies import (
    ChangeConversationRequest,
    ConversationShown,
    CreateConversationRequest,
    DeletedConversation,
)
from holdfast.features.openai.items import (
    Item,
    McpCallItems,
    call_of,
    function_call,
    history_item,
    item_id,
    message_item,
    page_of,
)
from holdfast.features.openai.models import unsupported
from holdfast.features.openai.shapes import BREAK, encode
from holdfast.folds.entries import Person, Text, ToolCard
from holdfast.folds.run_view import RunView
from holdfast.folds.session_fold import RunFold
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.ids import client_call_id, new_epoch, new_session_id
from holdfast.interfaces.journal import Appended, IfSessionNew, KeyConflict, Replayed
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_tools import ClientCall
from holdfast.server.runs.history import response_id, response_row
from holdfast.server.runs.requests import metadata_of, too_many_parts
from holdfast.server.sessions.sessions import SessionRoutes, session_of
from holdfast.server.transport.bodies import decoded, json_response, parsed, read_body
from holdfast.server.transport.once import earlier_response, once_key, replayed
from holdfast.values import HistoryMessage

_METADATA = msgspec.json.Decoder(dict[str, str])


class ConversationRoutes:
    """The routes under /v1/conversations."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._sessions = SessionRoutes(parts.deps, parts.purges)

    async def create(self, request: Request) -> Response:
        """POST /v1/conversations."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, CreateConversationRequest)
        if wanted.items:
            raise unsupported("items", "can't be added here: send them as 'input' of the first response")
        metadata = self._checked(wanted.metadata)
        key = once_key(request, body, deps)
        if (earlier := await earlier_response(key, deps, status=200)) is not None:
            return earlier
        session_id, now_ms = new_session_id(), deps.clock.now_ms()
        made = ConversationShown(
            id=session_id, object="conversation", created_at=now_ms // 1000, metadata=metadata
        )
        created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch())
        once = key.of(made) if key else None
        result = await deps.store.append(session_id, [created], when=[IfSessionNew()], idempotency_key=once)
        if isinstance(result, Replayed | KeyConflict):
            return replayed(result, status=200)
        assert isinstance(result, Appended), "its id is new"
        await self._put_metadata(session_id, metadata)
        return json_response(made)

    async def show(self, request: Request) -> Response:
        """GET /v1/conversations/{session_id}."""
        row = (await session_of(self._deps, request)).row
        stored = await self._deps.store.note(_metadata_note(row.session_id))
        metadata = {} if stored is None else _METADATA.decode(stored)
        return json_response(_shown(row.session_id, row.created_ms, metadata))

    async def change(self, request: Request) -> Response:
        """POST /v1/conversations/{session_id}."""
        wanted = await decoded(request, self._deps.limits, ChangeConversationRequest)
        metadata = self._checked(wanted.metadata)
        row = (await session_of(self._deps, request)).row
        await self._put_metadata(row.session_id, metadata)
        await session_of(self._deps, request)  # a purge meanwhile would leave the note behind
        return json_response(_shown(row.session_id, row.created_ms, metadata))

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/conversations/{session_id}."""
        session_id: str = request.path_params["session_id"]
        await self._sessions.delete(request)
        return json_response(DeletedConversation(id=session_id, object="conversation.deleted", deleted=True))

    async def items(self, request: Request) -> Response:
        """GET /v1/conversations/{session_id}/items."""
        return json_response(page_of(await self._all_items(request), request))

    async def item(self, request: Request) -> Response:
        """GET /v1/conversations/{session_id}/items/{item_id}."""
        wanted: str = request.path_params["item_id"]
        for one in await self._all_items(request):
            if one["id"] == wanted:
                return json_response(one)
        raise Problem(404, f"Item not found: {wanted[:100]}", code="item_not_found", param="item_id")

    async def _all_items(self, request: Request) -> list[Item]:
        row = (await session_of(self._deps, request)).row
        _, seen = await self._deps.folds.session(row.session_id)
        return conversation_items(seen)

    def _checked(self, given: dict[str, Any] | None) -> dict[str, str]:
        redact = self._deps.redactor.redact_text
        return {redact(key): redact(value) for key, value in metadata_of(given or {}).items()}

    async def _put_metadata(self, session_id: str, metadata: dict[str, str]) -> None:
        if metadata:
            await self._deps.store.put_note(_metadata_note(session_id), encode(metadata))
        else:
            await self._deps.store.drop_note(_metadata_note(session_id))


def _metadata_note(session_id: str) -> str:
    """The note's key; the session's purge removes it."""
    return f"session/{session_id}/metadata"


def _shown(session_id: str, created_ms: int, metadata: dict[str, str]) -> ConversationShown:
    return ConversationShown(
        id=session_id, object="conversation", created_at=created_ms // 1000, metadata=metadata
    )


def conversation_items(seen: Transcript) -> list[Item]:
    """Return the items of a session, oldest first, with the same ids as in its responses."""
    items: list[Item] = []
    made: dict[str, int] = {}  # tool calls so far, by run
    for entry in seen.entries:
        run = seen.runs[entry.run_id]
        if run.purpose != "answer":
            continue
        if entry.run_id not in made:
            is_first, made[entry.run_id] = not made, 0
            earlier = (run.history or ()) if is_first else ()  # a later run's history repeats the session's
            items += [history_item(run.run_id, f"in{at}", said) for at, said in enumerate(earlier)]
        if isinstance(entry, Person):
            items.append(_said_by_person(run, entry))
        elif isinstance(entry, Text) and entry.text:
            _add_text(items, run.run_id, entry.text, calls_before=made[run.run_id])
        elif isinstance(entry, ToolCard):
            made[run.run_id] += 1
            items += _call_items(run, entry)
    return items


def _said_by_person(run: RunView, entry: Person) -> Item:
    message = entry.message
    is_own = message.message_id == run.message_id
    place = f"in{len(run.history or ())}" if is_own else f"in_{message.message_id}"
    return history_item(
        run.run_id, place, HistoryMessage(role="user", content=message.text, parts=message.parts)
    )


def _add_text(items: list[Item], run_id: str, text: str, *, calls_before: int) -> None:
    """Text without a tool call in between is one item, as in the stream of the response."""
    known = next((one for one in items if one["id"] == item_id("msg", run_id, calls_before)), None)
    if known is None:
        items.append(message_item(run_id, text, calls_before=calls_before, status="completed"))
        return
    known["content"][0]["text"] += (BREAK if known is not items[-1] else "") + text


def _call_items(run: RunView, card: ToolCard) -> list[Item]:
    """A call of the agent's own tool, or one of the client's, with its result."""
    for asked in run.client_asks.values():
        if card.tool_call_id in asked.tool_call_ids:
            position = asked.tool_call_ids.index(card.tool_call_id)
            call_id = client_call_id(asked.client_tools_id, position)
            call = ClientCall(call_id, card.name, encode(card.args).decode())
            output: Item = {
                "id": item_id("fco", run.run_id, call_id),
                "type": "function_call_output",
                "call_id": call_id,
                "output": card.result,
                "status": "completed",
            }
            return [function_call(run.run_id, call), *([output] if card.state == "ended" else ())]
    return list(McpCallItems(run.run_id).listed(call_of(card)))


REFERENCE = "item_reference"
_MESSAGE = "msg"


async def resolve_references(deps: RouteDeps, given: RawInput) -> list[Item]:
    """The input items, with references to messages replaced by the messages; raises a Problem.

    A plain string is a user message. References to tool calls stay, and `parse_messages` leaves them out.
    """
    items = [given] if isinstance(given, str) else given
    if len(items) > deps.limits.content_parts_max:
        raise too_many_parts(deps.limits, param="input")
    whole: list[Item] = []
    room = deps.limits.body_bytes_max
    for at, one in enumerate(items):
        if isinstance(one, str):
            whole.append({"role": "user", "content": one})
        elif _is_reference(one):
            item = await _referenced_item(deps, one.get("id"), where=f"input[{at}]")
            room -= len(item.get("content", "").encode())
            if room < 0:
                text = f"The items referenced in 'input' have more than {deps.limits.body_bytes_max} bytes"
                raise Problem(413, text, code="body_too_large", param="input")
            whole.append(item)
        else:
            whole.append({"role": "user", **one})
    return whole


def _is_reference(item: Item) -> bool:
    kind = item.get("type")
    return kind == REFERENCE or (kind is None and "id" in item and item.keys() <= {"id", "type"})


async def _referenced_item(deps: RouteDeps, named: object, *, where: str) -> Item:
    if not isinstance(named, str):
        raise bad_request(f"Invalid '{where}': an item's id must be a string", param=where)
    kind, _, rest = named.partition("_")
    run, _, name = rest.partition("_")
    row = await response_row(deps, response_id(run), param=where)
    if kind != _MESSAGE:
        return {"type": REFERENCE}
    text = _said(await deps.folds.run(row), calls_before=name)
    if not text:
        raise Problem(404, f"Item not found: {named[:100]}", code="response_not_found", param=where)
    return {"role": "assistant", "content": text}


def _said(run: RunFold, *, calls_before: str) -> str:
    """The text of a run after this many tool calls: one message of its stream."""
    text, between, made = "", "", 0
    for entry in run.view.entries:
        if isinstance(entry, ToolCard):
            made += 1
        elif str(made) == calls_before and isinstance(entry, Person):
            between = BREAK if text else ""
        elif str(made) == calls_before and isinstance(entry, Text) and entry.text:
            text, between = text + between + entry.text, ""
    return text
