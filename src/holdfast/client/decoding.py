"""Response bodies as structs, also from a server that is a version older or newer.

The structs themselves ignore unknown fields. A field that the server doesn't send gets a value here if its
absence has one plain meaning. Nothing is made up for the rest: ids, states, times, and what a person must see
before deciding.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import inspect

from holdfast.api.access import KeyMade, KeyShown
from holdfast.api.approvals import GrantList, OpenApproval, OpenQuestion, RulePreview
from holdfast.api.operation import SCOPES
from holdfast.api.runs import (
    Accepted,
    ApprovalShown,
    QuestionShown,
    RunListed,
    RunPage,
    RunShown,
    Started,
)
from holdfast.api.server import TargetShown, TargetState
from holdfast.api.sessions import (
    Forked,
    HitShown,
    QueuedMessage,
    QueueShown,
    SessionPage,
    SessionShown,
    TranscriptPage,
    TranscriptRun,
)

_Body = TypeVar("_Body")
_Absent: TypeAlias = Callable[[Mapping[str, Any]], Any]  # the value of a field, from the rest of its object


def _value(value: object) -> _Absent:
    return lambda _: value


def _same_as(name: str) -> _Absent:
    return lambda body: body.get(name)


def _each(value: object, *names: str) -> dict[str, _Absent]:
    return dict.fromkeys(names, _value(value))


_LAST_PAGE = _each(False, "has_more") | _each(None, "next_cursor")
_ASK = _each("", "tool_call_id") | _each(None, "expires_at")
_RUN = _each("", "model", "preview")
_TARGET = _each("", "wire") | _each(0, "context_window", "gated_ms", "silent_ms")
_KEY = _each(None, "created_at") | _each(SCOPES, "scopes")  # without scopes, every key may do everything

IF_ABSENT: Mapping[type, Mapping[str, _Absent]] = {
    Started: _each("", "message_id") | _each("started", "status"),
    Accepted: _each("accepted", "status") | _each(True, "accepted"),
    ApprovalShown: _ASK | _each("", "description"),
    QuestionShown: _ASK | _each((), "choices"),
    OpenApproval: _ASK | _each("", "description"),
    OpenQuestion: _ASK | _each((), "choices"),
    RunListed: _RUN,
    RunShown: _RUN | _each("", "last_event") | _each(0, "last_event_id"),
    RunPage: _LAST_PAGE,
    RulePreview: _each(None, "rule"),
    GrantList: _LAST_PAGE,
    HitShown: _each((), "highlights"),
    SessionShown: {
        "id": _same_as("session_id"),
        "started_at": _same_as("created_at"),
        "last_active": _same_as("updated_at"),
    }
    | _each("", "epoch", "title", "source", "workspace", "preview")
    | _each(0, "message_count", "open_runs", "open_asks", "begun_runs", "read_seq")
    | _each(False, "pinned", "archived", "unread"),
    SessionPage: _LAST_PAGE,
    Forked: {"id": _same_as("session_id"), "parent_session_id": _same_as("forked_from")},
    TranscriptPage: _each(False, "has_more") | _each(None, "next_before") | _each((), "runs"),
    TranscriptRun: _each("", "model", "stop_cause", "call_id", "attempt_id", "target")
    | _each(0, "started_ms", "gate_until_ms", "context_tokens")
    | _each({}, "usage", "doing")
    | _each((), "texts", "thoughts"),
    QueuedMessage: _each((), "parts") | _each("", "client_id"),
    QueueShown: _each(False, "paused"),
    TargetShown: _TARGET,
    TargetState: _TARGET,
    KeyShown: _KEY,
    KeyMade: _KEY,
}


def decoded(body: bytes, kind: type[_Body]) -> _Body:
    """The body as a struct; raises one of msgspec's errors, or UnicodeDecodeError, if it isn't one."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        completed = _completed(msgspec.json.decode(body), inspect.type_info(kind))
        try:
            return msgspec.convert(completed, kind)
        except msgspec.ValidationError:
            raise error from None  # about what the server sent, not about what was added here


def _completed(value: Any, kind: inspect.Type) -> Any:
    """The value with every field that may be absent, at any depth."""
    match value, kind:
        case dict(), inspect.StructType():
            body = cast("dict[str, Any]", value)
            absent = IF_ABSENT.get(kind.cls, {})
            for field in kind.fields:
                if field.encode_name in body:
                    body[field.encode_name] = _completed(body[field.encode_name], field.type)
                elif field.encode_name in absent:
                    body[field.encode_name] = absent[field.encode_name](body)
            return body
        case list(), inspect.VarTupleType():
            return [_completed(each, kind.item_type) for each in cast("list[Any]", value)]
        case dict(), inspect.UnionType():
            body = cast("dict[str, Any]", value)
            structs = [one for one in kind.types if isinstance(one, inspect.StructType)]
            tagged = [one for one in structs if one.tag is None or body.get(one.tag_field or "") == one.tag]
            return _completed(body, tagged[0]) if tagged else body
        case _:
            return value
