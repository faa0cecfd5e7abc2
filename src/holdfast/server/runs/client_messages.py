"""Parses messages in OpenAI's form, and the session, user and chat that a request names."""

import base64
import hashlib
from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field
from starlette.requests import Request

from holdfast.api.runs import HistoryItem
from holdfast.folds.context import SUMMARY_MARK
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.message_content import Attached, content_of, parts_in
from holdfast.server.options import Limits
from holdfast.server.problems import bad_request
from holdfast.server.runs.requests import history_of, too_many_parts
from holdfast.server.transport.bodies import checked_session_id, converted
from holdfast.values import ClientToolResult, HistoryMessage, Part

CHAT_HEADERS = ("x-holdfast-chat-id", "x-openwebui-chat-id")
USER_HEADERS = ("x-holdfast-user-id", "x-openwebui-user-id")

_CARRIED = "holdfast-summary-1."  # begins each summary that a client carries
CALLS_ABOVE = "(The results of your tool calls are above. Continue.)"
_LEFT_OUT = frozenset(
    {"reasoning", "item_reference", "mcp_list_tools"}
)  # nothing that another model could use


class ClientInput(Struct, frozen=True):
    """The client's last message, and the messages before it.

    If the last ones are results of the client's own tools, they are in `results` and at the end of `before`.
    """

    text: str
    parts: tuple[Part, ...]
    before: tuple[HistoryMessage, ...]
    instructions: str
    attached: Attached
    results: tuple[ClientToolResult, ...] = ()


class GivenContext(Struct, frozen=True):
    """Messages that are only context: no one answers the last of them."""

    messages: tuple[HistoryMessage, ...] = ()
    instructions: str = ""
    attached: Attached = field(default_factory=dict[str, bytes])


def parse_messages(items: Sequence[dict[str, Any]], limits: Limits, *, param: str) -> ClientInput:
    """The messages of a conversation in our form; raises a Problem that names the field.

    The last one has the role user, or is a result of one of the client's own tools.
    """
    attached: Attached = {}
    history, instructions = _gathered(items, limits, param=param)
    if history and history[-1][1].role == "tool":
        before = history_of(history, limits, param=param, attached=attached)
        return ClientInput(CALLS_ABOVE, (), before, instructions, attached, _results(before))
    if not history or history[-1][1].role != "user":
        raise bad_request(f"The last entry of '{param}' must have the role user or tool", param=param)
    last = history[-1][0]
    where = f"{param}[{last}].content"
    text, parts = content_of(history[-1][1].content, param=where, attached=attached)
    if not text.strip() and not parts:
        raise bad_request(
            f"The last entry of '{param}' is empty: describe what the model should do", param=where
        )
    before = history_of(history[:-1], limits, param=param, attached=attached)
    return ClientInput(text, parts, before, instructions, attached)


def parse_context(items: Sequence[dict[str, Any]], limits: Limits, *, param: str) -> GivenContext:
    """Messages of any roles in our form; raises a Problem that names the field."""
    attached: Attached = {}
    history, instructions = _gathered(items, limits, param=param)
    for at, one in history:
        if one.content is None and not one.tool_calls:
            where = f"{param}[{at}].content"
            raise bad_request(f"Invalid '{where}': it must be text or a list of parts", param=where)
    return GivenContext(history_of(history, limits, param=param, attached=attached), instructions, attached)


def _gathered(
    items: Sequence[dict[str, Any]], limits: Limits, *, param: str
) -> tuple[list[tuple[int, HistoryItem]], str]:
    """The messages with their places, and the instructions that were among them."""
    if parts_in(item.get("content") for item in items) > limits.content_parts_max:
        raise too_many_parts(limits, param=param)
    history: list[tuple[int, HistoryItem]] = []
    instructions: list[str] = []
    for at, item in enumerate(items):
        for one in _items(item, f"{param}[{at}]"):
            if one.role in {"system", "developer"}:
                instructions.append(content_of(one.content, param=f"{param}[{at}].content", attached={})[0])
            elif history and _continues(history[-1][1], one):
                history[-1][1].tool_calls = [*(history[-1][1].tool_calls or ()), *(one.tool_calls or ())]
            else:
                history.append((at, one))
    return history, "\n\n".join(one for one in instructions if one)


def _results(history: Sequence[HistoryMessage]) -> tuple[ClientToolResult, ...]:
    last = list(takewhile(lambda message: message.role == "tool", reversed(history)))
    return tuple(
        ClientToolResult(tool_call_id=one.tool_call_id, text=one.content, parts=one.parts)
        for one in reversed(last)
    )


def _continues(answer: HistoryItem, item: HistoryItem) -> bool:
    """Whether the item is one more call of the same answer: Responses has an item for each."""
    return answer.role == item.role == "assistant" and item.content is None and bool(item.tool_calls)


def _items(item: dict[str, Any], where: str) -> Sequence[HistoryItem]:
    """An item as messages; none if there is nothing in it that a model could use."""
    match item.get("type") or "message":
        case "message":
            return [_message(item, where)]
        case "function_call":
            return [_called(item, item.get("call_id"), where)]
        case "function_call_output":
            return [_returned(item.get("output"), item.get("call_id"), where)]
        case "mcp_call":
            result = item.get("output") or str(item.get("error") or "")
            return [_called(item, item.get("id"), where), _returned(result, item.get("id"), where)]
        case "compaction":
            return [HistoryItem("user", SUMMARY_MARK + summary_in(item.get("encrypted_content"), where))]
        case kind if kind in _LEFT_OUT:
            return []
        case kind:
            raise bad_request(
                f"Invalid '{where}.type': items of type {str(kind)[:40]!r} aren't supported",
                param=f"{where}.type",
            )


def _message(item: dict[str, Any], where: str) -> HistoryItem:
    content = item.get("content")
    known = {"content": item.get("refusal") if content is None else content}
    keys = [key for key in ("role", "tool_calls", "tool_call_id") if item.get(key) is not None]
    one = converted(known | {key: item[key] for key in keys}, HistoryItem, param=where)
    if one.role == "function":  # how results were returned before there were tools
        one.role = "tool"
    return one


def _called(item: dict[str, Any], call_id: object, where: str) -> HistoryItem:
    function = {"name": item.get("name"), "arguments": item.get("arguments") or ""}
    calls = [{"id": call_id, "function": function}]
    return converted({"role": "assistant", "content": None, "tool_calls": calls}, HistoryItem, param=where)


def _returned(output: object, call_id: object, where: str) -> HistoryItem:
    return converted({"role": "tool", "content": output, "tool_call_id": call_id}, HistoryItem, param=where)


def summary_token(summary: str) -> str:
    """A summary in a form that clients carry without reading it; nothing in it is secret from them."""
    return _CARRIED + base64.urlsafe_b64encode(summary.encode()).decode()


def summary_in(token: object, where: str) -> str:
    """The summary that a token holds; raises a Problem if this isn't one."""
    try:
        if isinstance(token, str) and token.startswith(_CARRIED):
            return base64.b64decode(token.removeprefix(_CARRIED), altchars=b"-_", validate=True).decode()
    except ValueError:
        pass  # it was changed on the way
    param = f"{where}.encrypted_content"
    text = f"Invalid '{param}': this server didn't create this compaction, so it can't read it"
    raise bad_request(text, param=param)


def front_end_ids(request: Request) -> tuple[str, str]:
    """The front end's ids of its user and of the chat; empty if it names none."""
    user, chat_id = (
        next((value for name in names if (value := request.headers.get(name, ""))), "")
        for names in (USER_HEADERS, CHAT_HEADERS)
    )
    return user, chat_id


def client_of(request: Request) -> str:
    """Return the owner of a run's client tools: a key, or one user or chat of a front end."""
    key: str = request.scope[KEY_NAME]
    ids = front_end_ids(request)
    return f"{key}/{hashlib.sha256(msgspec.json.encode(ids)).hexdigest()[:32]}" if any(ids) else key


def named_session(request: Request, *, otherwise: str = "") -> str:
    """The session that the header names, or else the body; empty if none is named."""
    given = request.headers.get("x-hermes-session-id")
    if given:
        return checked_session_id(_letters(given), param="X-Hermes-Session-Id")
    return checked_session_id(otherwise) if otherwise else ""


def _letters(header: str) -> str:
    """The text of a header, which holds ASCII only: other letters are percent-encoded or raw UTF-8."""
    plain = unquote(header)
    if quote(plain) == header and not plain.isascii():
        return plain
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header
