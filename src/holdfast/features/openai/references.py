"""Input items of a response; a client may refer to an earlier item by its id instead of sending it."""

from holdfast.api.runs import RawInput
from holdfast.features.openai.items import Item
from holdfast.features.openai.shapes import BREAK
from holdfast.folds.entries import Person, Text, ToolCard
from holdfast.folds.session_fold import RunReadModel
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.history import response_id, response_row
from holdfast.server.runs.requests import too_many_parts

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


def _said(run: RunReadModel, *, calls_before: str) -> str:
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
