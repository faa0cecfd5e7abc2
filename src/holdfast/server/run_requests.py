"""The bodies that start runs: what may stand in them, and the message that they become."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from holdfast.runner.inbox import Message, WhenBusy
from holdfast.server.bodies import checked_session_id, converted
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request
from holdfast.values import Budget, FilePart, HistoryMessage, ImagePart, Part, RunSettings

METADATA_KEYS_MAX = 64
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


class HistoryItem(msgspec.Struct):
    """One message of a history as clients write it; `content` is text or a list of parts."""

    role: str
    content: str | list[dict[str, Any]] | None


class RunRequest(msgspec.Struct, kw_only=True):
    """The body of POST /v1/runs."""

    input: str | list[str | dict[str, Any]] | None = None
    message: str | list[str | dict[str, Any]] | None = None
    parts: list[Part] = []
    session_id: str | None = None
    instructions: str | None = None
    conversation_history: list[HistoryItem] | None = None
    previous_response_id: str | None = None
    model: str | None = None
    metadata: dict[str, Any] | None = None
    workspace: str | None = None
    when_busy: WhenBusy = "queue"
    budget: Budget | None = None
    on_restart: Literal["", "resume", "interrupt"] | None = None
    on_disconnect: Literal["", "detach", "cancel"] | None = None
    client_id: str | None = None


def message_of(body: RunRequest, limits: Limits, *, source: str = "api") -> Message:
    """The message that starts the run; raises a Problem that names what is wrong."""
    name = "input" if body.input is not None or body.message is None else "message"
    given = body.input if body.input is not None else body.message
    text, parts, earlier = _input(given, limits, param=name)
    parts = (*parts, *body.parts)
    if not text.strip() and not parts:
        raise bad_request(f"Missing or empty '{name}': say what the run is to do", param=name)
    if len(parts) > limits.parts_max:
        raise _too_many_parts(limits, param="parts")
    history = earlier or None
    if body.conversation_history is not None:
        history = history_of(body.conversation_history, limits, param="conversation_history") + earlier
    if body.session_id is not None:
        checked_session_id(body.session_id)
    if body.workspace and (not body.workspace.startswith("/") or "\0" in body.workspace):
        raise bad_request("'workspace' must be an absolute path", param="workspace")
    return Message(
        text=text,
        parts=parts,
        client_id=body.client_id or "",
        settings=settings_of(body),
        history=history,
        source=source,
        when_busy=body.when_busy,
    )


def settings_of(body: RunRequest) -> RunSettings:
    """What the caller asked for with this run."""
    return RunSettings(
        model=body.model or "",
        instructions=body.instructions or "",
        workspace=body.workspace or "",
        budget=body.budget,
        on_restart=body.on_restart or "",
        on_disconnect=body.on_disconnect or "",
        metadata=_metadata(body.metadata or {}),
    )


def history_of(items: Iterable[HistoryItem], limits: Limits, *, param: str) -> tuple[HistoryMessage, ...]:
    """A history as it is stored; raises a Problem that names the message."""
    history: list[HistoryMessage] = []
    count = 0
    for at, item in enumerate(items):
        where = f"{param}[{at}]"
        if item.role not in _ROLES:
            raise bad_request(
                f"Invalid '{where}.role': {item.role[:40]!r} is none of {', '.join(sorted(_ROLES))}",
                param=f"{where}.role",
            )
        text, parts = content_of(item.content, param=f"{where}.content")
        count += max(1, len(parts))
        if count > limits.parts_max:
            raise _too_many_parts(limits, param=param)
        history.append(HistoryMessage(role=item.role, content=text, parts=parts))
    return tuple(history)


def content_of(content: str | list[dict[str, Any]] | None, *, param: str) -> tuple[str, tuple[Part, ...]]:
    """Text and attachments of a message whose content is text or a list of parts."""
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    parts: list[Part] = []
    for at, part in enumerate(content):
        where = f"{param}[{at}]"
        kind = part.get("type") or part.get("kind")
        if kind in {"text", "input_text", "output_text"} and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif "blob" in part:
            parts.append(_attachment(part, where))
        else:
            raise bad_request(
                f"Invalid '{where}': a part is text, or names a blob of POST /api/blobs", param=where
            )
    return "\n".join(texts), tuple(parts)


def _attachment(part: dict[str, Any], where: str) -> Part:
    media_type = str(part.get("media_type", ""))
    kind = ImagePart if media_type.startswith("image/") else FilePart
    fields = {key: part[key] for key in ("blob", "media_type", "name") if key in part}
    return converted(
        {"kind": "image" if kind is ImagePart else "file", "name": "", **fields}, kind, param=where
    )


def _input(
    given: str | list[str | dict[str, Any]] | None, limits: Limits, *, param: str
) -> tuple[str, tuple[Part, ...], tuple[HistoryMessage, ...]]:
    """The last message of a list is the input; those before it are a history."""
    if given is None or isinstance(given, str):
        return given or "", (), ()
    if not given:
        return "", (), ()
    if len(given) > limits.parts_max:
        raise _too_many_parts(limits, param=param)
    items = [
        HistoryItem("user", one)
        if isinstance(one, str)
        else converted({"role": "user", **one}, HistoryItem, param=f"{param}[{at}]")
        for at, one in enumerate(given)
    ]
    *before, last = items
    if last.role != "user":
        raise bad_request(f"The last message of '{param}' must be the user's", param=param)
    text, parts = content_of(last.content, param=f"{param}[{len(before)}].content")
    return text, parts, history_of(before, limits, param=param)


def _metadata(given: dict[str, Any]) -> dict[str, str]:
    if len(given) > METADATA_KEYS_MAX:
        raise bad_request(f"'metadata' holds more than {METADATA_KEYS_MAX} entries", param="metadata")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in given.items()
    }


def _too_many_parts(limits: Limits, *, param: str) -> Problem:
    return bad_request(
        f"'{param}' holds more than {limits.parts_max} parts", param=param, code="too_many_parts"
    )
