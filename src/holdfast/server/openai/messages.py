"""What OpenAI clients say: their messages in our form, and the session that they name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request

from holdfast.api.runs import HistoryItem
from holdfast.server.contents import Attached, content_of, parts_in
from holdfast.server.options import Limits
from holdfast.server.problems import bad_request
from holdfast.server.runs.requests import history_of, too_many_parts
from holdfast.server.transport.bodies import checked_session_id, converted
from holdfast.values import HistoryMessage, Part


@dataclass(frozen=True, slots=True)
class Said:
    """What a client said last, with what came before it."""

    text: str
    parts: tuple[Part, ...]
    before: tuple[HistoryMessage, ...]
    instructions: str
    attached: Attached


def said_in(items: Sequence[dict[str, Any]], limits: Limits, *, param: str) -> Said:
    """The messages of a conversation in our form, the last the user's; raises a Problem that names the place.

    What a client's own tools brought is left out: here the server's tools work, and a result without its call
    would look like something that a person said.
    """
    if parts_in(item.get("content") for item in items) > limits.content_parts_max:
        raise too_many_parts(limits, param=param)
    attached: Attached = {}
    history: list[tuple[int, HistoryItem]] = []
    instructions: list[str] = []
    last = -1
    for at, item in enumerate(items):
        one = _item(item, f"{param}[{at}]")
        if one is not None and one.role in {"system", "developer"}:
            instructions.append(content_of(one.content, param=f"{param}[{at}].content", attached={})[0])
            continue
        last = at
        if one is not None:
            history.append((at, one))
    if not history or history[-1][0] != last or history[-1][1].role != "user":
        raise bad_request(f"The last of '{param}' must be the user's", param=param)
    where = f"{param}[{last}].content"
    text, parts = content_of(history[-1][1].content, param=where, attached=attached)
    if not text.strip() and not parts:
        raise bad_request(f"The last of '{param}' is empty: say what the model should do", param=where)
    before = history_of(history[:-1], limits, param=param, attached=attached)
    return Said(text, parts, before, "\n\n".join(one for one in instructions if one), attached)


def _item(item: dict[str, Any], where: str) -> HistoryItem | None:
    """A message; None is an item that belongs to a tool or is no message."""
    if (item.get("type") or "message") != "message":
        return None
    content = item.get("content")
    known = {"content": item.get("refusal") if content is None else content}
    one = converted(known | {key: item[key] for key in ("role",) if key in item}, HistoryItem, param=where)
    return None if one.role in {"tool", "function"} else one


def named_session(request: Request, *, otherwise: str = "") -> str:
    """The session that the header names, or else the body; empty if none is named."""
    given = request.headers.get("x-hermes-session-id")
    if given:
        return checked_session_id(_letters(given), param="X-Hermes-Session-Id")
    return checked_session_id(otherwise) if otherwise else ""


def _letters(header: str) -> str:
    """What a header says that holds ASCII only: other letters are quoted, as we do, or bytes of UTF-8."""
    plain = unquote(header)
    if quote(plain) == header and not plain.isascii():
        return plain
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header
