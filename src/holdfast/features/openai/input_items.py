"""The input of a response as a list of items, as OpenAI's API has it."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from holdfast.features.openai.bodies import InputItems
from holdfast.features.openai.items import Item, item_id
from holdfast.folds.rows import RunRow
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import bad_request
from holdfast.server.provider_formats import text_part
from holdfast.server.transport.bodies import whole_number
from holdfast.values import FilePart, HistoryMessage, ImagePart, Part, TextPart

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
