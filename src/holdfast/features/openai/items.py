"""The output items of a response: messages, and calls of tools that the server ran itself.

A client runs each `function_call` that it gets. So the agent's own calls are `mcp_call` items, OpenAI's form
for tools that are run elsewhere. Hermes' clients expect a `function_call` followed by its output.

The input of a response as a list of items, as OpenAI's API has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from starlette.requests import Request
from typing_extensions import override

from holdfast.features.openai.bodies import InputItems
from holdfast.features.openai.shapes import encode
from holdfast.folds.entries import ToolCard
from holdfast.folds.rows import RunRow
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import bad_request
from holdfast.server.provider_formats import text_part
from holdfast.server.runs.client_tools import ClientCall
from holdfast.server.transport.bodies import whole_number
from holdfast.values import FilePart, HistoryMessage, ImagePart, Part, TextPart

Item: TypeAlias = dict[str, Any]
SseEvent: TypeAlias = tuple[str, dict[str, Any]]  # an event: its type and its fields
ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]

ADDED, DONE = "response.output_item.added", "response.output_item.done"
SERVER = "holdfast"


class ServerToolCall(Struct, frozen=True):
    """A tool call, with its result if it has ended."""

    call_id: str
    name: str
    args: Mapping[str, object]
    result: str | None = None
    ok: bool = True

    @property
    def arguments(self) -> str:
        """The arguments as the protocol has them."""
        return encode(self.args).decode()


def call_of(card: ToolCard) -> ServerToolCall:
    """The call of a tool card."""
    result = card.result if card.state == "ended" else None
    return ServerToolCall(card.tool_call_id, card.name, card.args, result, card.ok)


class CallItems(Protocol):
    """Calls in one of the two forms."""

    def listed(self, call: ServerToolCall) -> Sequence[Item]:
        """The items of a call, as a response lists them."""
        ...

    def started(self, call: ServerToolCall, at: int) -> Sequence[SseEvent]:
        """The events for a call that starts, as the item at this index."""
        ...

    def ended(self, call: ServerToolCall, at: int, *, next_index: int) -> tuple[Sequence[SseEvent], int]:
        """The events for the end of the call at this index, and the next free index."""
        ...


def item_id(kind: str, run_id: str, name: object) -> str:
    """An id that is the same in every view of the run, and unique to it."""
    return f"{kind}_{run_id.removeprefix('run_')}_{name}"


def function_call(run_id: str, call: ClientCall | ServerToolCall, status: ItemStatus = "completed") -> Item:
    """A call without its result: the client has to run it."""
    return {
        "id": item_id("fc", run_id, call.call_id),
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "status": status,
    }


def function_call_events(item: Item, at: int) -> Sequence[SseEvent]:
    """The events for such an item."""
    place, arguments = {"item_id": item["id"], "output_index": at}, item["arguments"]
    return [
        (ADDED, {"output_index": at, "item": item | {"arguments": "", "status": "in_progress"}}),
        ("response.function_call_arguments.delta", {**place, "delta": arguments}),
        ("response.function_call_arguments.done", {**place, "arguments": arguments, "name": item["name"]}),
        (DONE, {"output_index": at, "item": item}),
    ]


@dataclass(frozen=True, slots=True)
class HermesCallItems(CallItems):
    """The call, and its result as a separate item."""

    run_id: str

    def _output(self, call: ServerToolCall) -> Item:
        return {
            "id": item_id("fco", self.run_id, call.call_id),
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": call.result,
            "status": "completed",
        }

    @override
    def listed(self, call: ServerToolCall) -> Sequence[Item]:
        if call.result is None:
            return [function_call(self.run_id, call, "incomplete")]
        return [function_call(self.run_id, call), self._output(call)]

    @override
    def started(self, call: ServerToolCall, at: int) -> Sequence[SseEvent]:
        return function_call_events(function_call(self.run_id, call), at)

    @override
    def ended(self, call: ServerToolCall, at: int, *, next_index: int) -> tuple[Sequence[SseEvent], int]:
        del at
        fields = {"output_index": next_index, "item": self._output(call)}
        return [(ADDED, fields), (DONE, fields)], next_index + 1


@dataclass(frozen=True, slots=True)
class McpCallItems(CallItems):
    """The call and its result as one `mcp_call` item."""

    run_id: str

    def _item(self, call: ServerToolCall) -> Item:
        failed = call.result is not None and not call.ok
        error = {"type": "mcp_tool_execution_error", "content": call.result} if failed else None
        ended = "failed" if failed else "completed"
        return {
            "id": item_id("mcp", self.run_id, call.call_id),
            "type": "mcp_call",
            "server_label": SERVER,
            "name": call.name,
            "arguments": call.arguments,
            "approval_request_id": None,
            "output": None if failed else call.result,
            "error": error,
            "status": "incomplete" if call.result is None else ended,
        }

    @override
    def listed(self, call: ServerToolCall) -> Sequence[Item]:
        return [self._item(call)]

    @override
    def started(self, call: ServerToolCall, at: int) -> Sequence[SseEvent]:
        item, arguments = self._item(call), call.arguments
        place = {"item_id": item["id"], "output_index": at}
        return [
            (ADDED, {"output_index": at, "item": item | {"arguments": "", "status": "in_progress"}}),
            ("response.mcp_call.in_progress", place),
            ("response.mcp_call_arguments.delta", {**place, "delta": arguments}),
            ("response.mcp_call_arguments.done", {**place, "arguments": arguments}),
        ]

    @override
    def ended(self, call: ServerToolCall, at: int, *, next_index: int) -> tuple[Sequence[SseEvent], int]:
        item = self._item(call)
        place = {"item_id": item["id"], "output_index": at}
        told = f"response.mcp_call.{item['status']}"
        return [(told, place), (DONE, {"output_index": at, "item": item})], next_index


def message_item(run_id: str, text: str, *, calls_before: int, status: ItemStatus) -> Item:
    """Build the output item of the assistant's text after this many tool calls."""
    return {
        "id": item_id("msg", run_id, calls_before),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [text_part(text)] if status != "in_progress" else [],
    }


PAGE, PAGE_MAX = 20, 100
_ROLES = frozenset({"assistant", "system", "developer"})


async def input_items(deps: RouteDeps, row: RunRow, request: Request) -> InputItems:
    """One page of the items, the newest first unless `order` says otherwise; raises a Problem."""
    asked = await _asked(deps, row)
    return page_of([history_item(row.run_id, f"in{at}", said) for at, said in enumerate(asked)], request)


def page_of(items: list[Item], request: Request) -> InputItems:
    """The page of these items, oldest first, that a request wants; raises a Problem."""
    limit = whole_number(request, "limit", default=PAGE, most=PAGE_MAX)
    order = request.query_params.get("order", "desc")
    if order not in {"asc", "desc"}:
        raise bad_request("'order' must be asc or desc", param="order")
    if order == "desc":
        items.reverse()
    first = _place_after(items, request.query_params.get("after", ""))
    page = items[first : first + limit]
    return InputItems(
        data=tuple(page),
        first_id=page[0]["id"] if page else None,
        last_id=page[-1]["id"] if page else None,
        has_more=first + limit < len(items),
    )


async def _asked(deps: RouteDeps, row: RunRow) -> list[HistoryMessage]:
    """The history that the run was given, and its message, as they are in the log."""
    _, seen = await deps.folds.session(row.session_id)
    run = seen.runs[row.run_id]
    message = seen.inbox.messages[run.message_id]
    return [*(run.history or ()), HistoryMessage(role="user", content=message.text, parts=message.parts)]


def _place_after(items: Sequence[Item], after: str) -> int:
    if not after:
        return 0
    places = [at for at, item in enumerate(items, start=1) if item["id"] == after]
    if not places:
        raise bad_request("'after' isn't one of these items", param="after")
    return places[0]


def history_item(run_id: str, place: str, said: HistoryMessage) -> Item:
    """A message at a place of the run's input; all but assistant, system and developer are shown as user."""
    role = said.role if said.role in _ROLES else "user"
    text = [text_part(said.content)] if role == "assistant" else [_part(TextPart(said.content))]
    return {
        "id": item_id("msg", run_id, place),
        "type": "message",
        "status": "completed",
        "role": role,
        "content": [*(text if said.content else ()), *map(_part, said.parts)],
    }


def _part(part: Part) -> dict[str, Any]:
    """A part as the API has it, and its blob, by which a client can fetch it or send it again."""
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            shape = {"type": "input_image", "detail": "auto", "file_id": part.blob}
        case FilePart():
            shape = {"type": "input_file", "filename": part.name, "file_id": part.blob}
    return shape | {"blob": part.blob, "media_type": part.media_type, "name": part.name}
