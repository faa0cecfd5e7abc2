"""The bodies that start runs: what may stand in them, and the message that they become."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from holdfast.runner.inbox import Message, WhenBusy
from holdfast.server.contents import Attached, content_of, parts_in
from holdfast.server.model_options import ModelOptions
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import (
    SESSION_ID_CHARS_MAX,
    checked_session_id,
    checked_workspace,
    converted,
)
from holdfast.values import Budget, HistoryMessage, OnRestart, Part, RunSettings

METADATA_KEYS_MAX = 64
NAME_CHARS_MAX = 256  # lists of runs and messages repeat them
BUDGET_MAX = 1e15  # beyond that it is no limit but a mistake
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


_ROLE_WORDS = "user, assistant, system, developer or tool"
RawMessage: TypeAlias = Annotated[
    dict[str, Any],
    msgspec.Meta(
        extra_json_schema={
            "required": ["role", "content"],
            "properties": {
                "role": {"type": "string", "description": _ROLE_WORDS, "enum": sorted(_ROLES)},
                "content": {
                    "description": (
                        "Text, or a list of parts: text, image_url, input_image, file, input_file with data: "
                        "URLs, or {type, blob, media_type, name} with a name of POST /api/blobs."
                    ),
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
                },
            },
        }
    ),
]
ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
OnDisconnect: TypeAlias = Literal["", "detach", "cancel"]
RawInput: TypeAlias = str | list[str | RawMessage]
SessionId: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "description": "1 to 256 printable characters without / and \\; a new one makes a new session.",
            "maxLength": SESSION_ID_CHARS_MAX,
        }
    ),
]


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class HistoryItem(msgspec.Struct):
    """One message of a history as clients write it; `content` is text or a list of parts."""

    role: str
    content: str | list[dict[str, Any]] | None


class BudgetRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a run may use up; 0 is no limit but the server's own, which a request cannot raise."""

    tokens: Annotated[int, _says("Most tokens, read and written.")] = 0
    cost_usd: Annotated[float, _says("Most dollars, as far as the price is known.")] = 0.0
    turns: Annotated[int, _says("Most answers of the model.")] = 0
    minutes: Annotated[float, _says("Most minutes of work, without waiting for people.")] = 0.0


class RunRequest(ModelOptions, kw_only=True):
    """The body of POST /v1/runs."""

    input: Annotated[
        RawInput | None, _says("What the run is to do: text, or messages, the last the user's.")
    ] = None
    message: Annotated[RawInput | None, _says("Another name for input.")] = None
    parts: Annotated[list[Part], _says("Attachments, by their names of POST /api/blobs.")] = msgspec.field(
        default_factory=list[Part]
    )
    session_id: SessionId | None = None
    instructions: Annotated[str | None, _says("What the model is told first, beside the server's own.")] = (
        None
    )
    conversation_history: Annotated[
        list[HistoryItem] | None, _says("Replaces the session's history for this run.")
    ] = None
    previous_response_id: Annotated[str | None, _says("Go on after this response.")] = None
    model: Annotated[
        ShortText | None, _says("A target's name or model; an unknown one means the default.")
    ] = None
    metadata: Annotated[dict[str, Any] | None, _says("Kept with the run and shown with it; 64 entries.")] = (
        None
    )
    workspace: Annotated[str | None, _says("The folder that tools work in, as an absolute path.")] = None
    when_busy: Annotated[WhenBusy, _says("What to do while another run has the session.")] = "queue"
    budget: Annotated[
        BudgetRequest | None, _says("What the run may use up; it ends with outcome budget.")
    ] = None
    on_restart: Annotated[
        Literal["", OnRestart] | None, _says("Whether the run goes on by itself after a restart.")
    ] = None
    on_disconnect: Annotated[
        OnDisconnect | None, _says("Whether the run ends when its last reader has left: detach or cancel.")
    ] = None
    client_id: Annotated[
        ShortText | None, _says("The client's own id of the message, given back with it.")
    ] = None


def message_of(body: RunRequest, limits: Limits, *, source: str = "api") -> Message:
    """The message that starts the run; raises a Problem that names what is wrong."""
    name = "input" if body.input is not None or body.message is None else "message"
    given = body.input if body.input is not None else body.message
    attached: Attached = {}
    text, parts, earlier = _input(given, limits, param=name, attached=attached)
    parts = (*parts, *body.parts)
    if not text.strip() and not parts:
        raise bad_request(f"Missing or empty '{name}': say what the run is to do", param=name)
    if _count(body, given) > limits.content_parts_max:
        raise too_many_parts(limits, param="parts" if body.parts else name)
    history = earlier or None
    if body.conversation_history is not None:
        history = given_history(body.conversation_history, limits, attached=attached) + earlier
    if body.session_id is not None:
        checked_session_id(body.session_id)
    checked_workspace(body.workspace or "")
    return Message(
        text=text,
        parts=parts,
        client_id=body.client_id or "",
        settings=settings_of(body),
        history=history,
        source=source,
        when_busy=body.when_busy,
        attached=attached,
    )


def _count(body: RunRequest, given: RawInput | None) -> int:
    """The parts of all that the request holds."""
    said = given if isinstance(given, list) else [given]
    contents = [one.get("content") if isinstance(one, dict) else one for one in said]
    earlier = [item.content for item in body.conversation_history or ()]
    return parts_in([*contents, *earlier]) + len(body.parts)


def settings_of(body: RunRequest) -> RunSettings:
    """What the caller asked for with this run."""
    return RunSettings(
        model=body.model or "",
        instructions=body.instructions or "",
        workspace=body.workspace or "",
        budget=_budget(body.budget),
        temperature=body.temperature,
        max_output_tokens=body.output_tokens_max,
        reasoning_effort=body.effort,
        on_restart=body.on_restart or "",
        on_disconnect=body.on_disconnect or "",
        metadata=metadata_of(body.metadata or {}),
    )


def _budget(given: BudgetRequest | None) -> Budget | None:
    if given is None:
        return None
    limits = msgspec.structs.asdict(given)
    for name, most in limits.items():
        if not 0 <= most < BUDGET_MAX:
            raise bad_request(f"'budget.{name}' must be 0, for no limit, or more", param=f"budget.{name}")
    return Budget(**limits)


def history_of(
    items: Iterable[tuple[int, HistoryItem]], limits: Limits, *, param: str, attached: Attached
) -> tuple[HistoryMessage, ...]:
    """A history as it is stored, of messages and their places; raises a Problem that names the message."""
    history: list[HistoryMessage] = []
    count = 0
    for at, item in items:
        where = f"{param}[{at}]"
        if item.role not in _ROLES:
            raise bad_request(
                f"Invalid '{where}.role': {item.role[:40]!r} is none of {', '.join(sorted(_ROLES))}",
                param=f"{where}.role",
            )
        text, parts = content_of(item.content, param=f"{where}.content", attached=attached)
        count += parts_in([item.content])
        if count > limits.content_parts_max:
            raise too_many_parts(limits, param=param)
        history.append(HistoryMessage(role=item.role, content=text, parts=parts))
    return tuple(history)


def given_history(
    items: Iterable[HistoryItem], limits: Limits, *, attached: Attached
) -> tuple[HistoryMessage, ...]:
    """`conversation_history` as it is stored."""
    return history_of(enumerate(items), limits, param="conversation_history", attached=attached)


def _input(
    given: RawInput | None, limits: Limits, *, param: str, attached: Attached
) -> tuple[str, tuple[Part, ...], tuple[HistoryMessage, ...]]:
    """The last message of a list is the input; those before it are a history."""
    if given is None or isinstance(given, str):
        return given or "", (), ()
    if not given:
        return "", (), ()
    if len(given) > limits.content_parts_max:
        raise too_many_parts(limits, param=param)
    items = [
        HistoryItem("user", one)
        if isinstance(one, str)
        else converted({"role": "user", **one}, HistoryItem, param=f"{param}[{at}]")
        for at, one in enumerate(given)
    ]
    *before, last = items
    if last.role != "user":
        raise bad_request(f"The last message of '{param}' must be the user's", param=param)
    text, parts = content_of(last.content, param=f"{param}[{len(before)}].content", attached=attached)
    return text, parts, history_of(enumerate(before), limits, param=param, attached=attached)


def metadata_of(given: dict[str, Any]) -> dict[str, str]:
    """Metadata as it is kept: what is no text as JSON; raises a Problem if it is too much."""
    if len(given) > METADATA_KEYS_MAX:
        raise bad_request(f"'metadata' holds more than {METADATA_KEYS_MAX} entries", param="metadata")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in given.items()
    }


def too_many_parts(limits: Limits, *, param: str) -> Problem:
    """More messages and attachments than one request may hold."""
    return bad_request(
        f"'{param}' holds more than {limits.content_parts_max} parts", param=param, code="too_many_parts"
    )
