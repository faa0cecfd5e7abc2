"""The bodies that start runs: what they may contain, and the message they become.

Responses to messages: started, accepted, or refused; and the headers that name a run.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from holdfast.api.runs import (
    ROLES,
    Accepted,
    BudgetRequest,
    HistoryItem,
    ModelOptions,
    RawInput,
    RunRequest,
    Started,
)
from holdfast.catalog import FEATURES, absent_feature
from holdfast.folds.rows import RunRow
from holdfast.interfaces.feature import AgentChoice, Feature, UnusableAgent
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.server.access.caller import caller_name
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import Attached, content_of, parts_in
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request, too_many
from holdfast.server.transport.bodies import checked_session_id, converted
from holdfast.server.transport.once import replay_headers
from holdfast.targets import Target, refusal, unsupported
from holdfast.values import (
    COMMAND_MARK,
    ONE_SHOT,
    PEOPLE_SOURCES,
    Budget,
    HistoryMessage,
    HistoryToolCall,
    Part,
    RunSettings,
    mode_named,
)

METADATA_KEYS_MAX = 64
ORIGINS = PEOPLE_SOURCES | {ONE_SHOT}
BUDGET_MAX = 1e15  # a larger value is a mistake
_NAMING: tuple[Feature, ...] = tuple(one for one in FEATURES.values() if one.named_agent)
_MENTION = re.compile(r"@([a-z0-9]+(?:-[a-z0-9]+)*)\s")


def message_of(body: RunRequest, limits: Limits, *, source: str = "api") -> IncomingMessage:
    """The message that starts the run; raises a Problem that names what is wrong."""
    if body.command is not None:
        return _command_of(body, source=source)
    name = "input" if body.input is not None or body.message is None else "message"
    given = body.input if body.input is not None else body.message
    attached: Attached = {}
    text, parts, earlier = _input(given, limits, param=name, attached=attached)
    parts = (*parts, *body.parts)
    if not text.strip() and not parts:
        raise bad_request(f"Missing or empty '{name}': describe what the run should do", param=name)
    if _count(body, given) > limits.content_parts_max:
        raise too_many_parts(limits, param="parts" if body.parts else name)
    history = earlier or None
    if body.conversation_history is not None:
        history = given_history(body.conversation_history, limits, attached=attached) + earlier
    if body.session_id is not None:
        checked_session_id(body.session_id)
    return IncomingMessage(
        text=text,
        parts=parts,
        client_id=body.client_id or "",
        settings=settings_of(body),
        history=history,
        source=body.origin if body.origin in ORIGINS else source,
        when_busy=body.when_busy,
        attached=attached,
        permission_mode=None if body.permission_mode is None else mode_named(body.permission_mode),
    )


def _command_of(body: RunRequest, *, source: str) -> IncomingMessage:
    """The message of a run without a model; raises a Problem."""
    command = (body.command or "").strip()
    if not command:
        raise bad_request("'command' is empty", param="command")
    if "\0" in command:
        raise bad_request("'command' can't contain a NUL character", param="command")
    if body.input is not None or body.message is not None or body.parts:
        raise bad_request("Send either 'command' or 'input', and no 'parts' with a command", param="command")
    if body.session_id is not None:
        checked_session_id(body.session_id)
    return IncomingMessage(
        text=f"{COMMAND_MARK}{command}",
        client_id=body.client_id or "",
        settings=RunSettings(
            purpose="command",
            command=command,
            workspace=body.workspace or "",
            metadata=metadata_of(body.metadata or {}),
        ),
        source=body.origin if body.origin in ORIGINS else source,
        when_busy="reject" if body.when_busy == "reject" else "queue",
        permission_mode=None if body.permission_mode is None else mode_named(body.permission_mode),
    )


_ANY = ("", "default")  # as hermes' clients write it if no one chose a model


def target_named(provider: str, model: str, targets: Sequence[Target]) -> Target:
    """Return the target with hermes' name for it and, if given, this model; raises a Problem."""
    # An import numbers the targets of one provider.
    named = re.compile(rf"{re.escape(provider.removeprefix('custom:'))}(-\d+)?", re.IGNORECASE)
    for target in targets:
        if (not provider or named.fullmatch(target.name)) and model in {*_ANY, target.name, target.model}:
            return target
    listed = ", ".join(f"{one.name} ({one.model})" for one in targets)
    param = "provider" if provider else "model"
    raise Problem(404, f"No such target. This server has: {listed}", code="target_not_found", param=param)


def _count(body: RunRequest, given: RawInput | None) -> int:
    """The number of parts in the whole request."""
    said = given if isinstance(given, list) else [given]
    contents = [one.get("content") if isinstance(one, dict) else one for one in said]
    earlier = [item.content for item in body.conversation_history or ()]
    return parts_in([*contents, *earlier]) + len(body.parts)


def settings_of(body: RunRequest) -> RunSettings:
    """The settings that the caller asked for; raises a Problem if they need an absent feature."""
    if body.model_options is not None and body.model_options.fast:
        raise bad_request("'model_options.fast' isn't supported", param="model_options.fast")
    if (absent := absent_feature(body)) is not None:
        raise bad_request(absent[1], param=absent[0])
    return RunSettings(
        agent=body.agent or "",
        model=body.model or "",
        instructions=body.instructions or "",
        workspace=body.workspace or "",
        budget=budget_of(body.budget),
        temperature=body.temperature,
        max_output_tokens=output_tokens_max(body),
        reasoning_effort=body.effort,
        on_restart=body.on_restart or "",
        on_disconnect=body.on_disconnect or "",
        metadata=metadata_of(body.metadata or {}),
        plan_first=body.plan_first,
        goal=body.goal,
    )


def output_tokens_max(options: ModelOptions) -> int:
    """The limit by whichever name it came; 0 is none; raises a Problem if two names disagree."""
    names = (options.max_tokens, options.max_completion_tokens, options.max_output_tokens)
    given = {one for one in names if one is not None}
    if len(given) > 1:
        raise bad_request(
            "'max_tokens', 'max_completion_tokens' and 'max_output_tokens' are the same limit. Send one",
            param="max_tokens",
        )
    return given.pop() if given else 0


def budget_of(given: BudgetRequest | None) -> Budget | None:
    """Parse a run's budget; raises a Problem that names the field."""
    if given is None:
        return None
    limits = msgspec.structs.asdict(given)
    for name, most in limits.items():
        if not 0 <= most < BUDGET_MAX:
            raise bad_request(f"'budget.{name}' must be 0 (no limit) or more", param=f"budget.{name}")
    return Budget(**limits)


def history_of(
    items: Iterable[tuple[int, HistoryItem]], limits: Limits, *, param: str, attached: Attached
) -> tuple[HistoryMessage, ...]:
    """A history as it is stored, of messages and their places; raises a Problem that names the message."""
    history: list[HistoryMessage] = []
    count = 0
    for at, item in items:
        where = f"{param}[{at}]"
        if item.role not in ROLES:
            raise bad_request(
                f"Invalid '{where}.role': {item.role[:40]!r} isn't one of {', '.join(sorted(ROLES))}",
                param=f"{where}.role",
            )
        text, parts = content_of(item.content, param=f"{where}.content", attached=attached)
        calls = item.tool_calls or []
        count += parts_in([item.content]) + len(calls)
        if count > limits.content_parts_max:
            raise too_many_parts(limits, param=param)
        history.append(
            HistoryMessage(
                role=item.role,
                content=text,
                parts=parts,
                tool_calls=tuple(
                    HistoryToolCall(
                        tool_call_id=call.id, name=call.function.name, arguments=call.function.arguments
                    )
                    for call in calls
                ),
                tool_call_id=item.tool_call_id or "",
            )
        )
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
        raise bad_request(f"The last message of '{param}' must have the role user", param=param)
    text, parts = content_of(last.content, param=f"{param}[{len(before)}].content", attached=attached)
    return text, parts, history_of(enumerate(before), limits, param=param, attached=attached)


def metadata_of(given: dict[str, Any]) -> dict[str, str]:
    """Metadata as stored: values other than text become JSON; raises a Problem if there's too much."""
    if len(given) > METADATA_KEYS_MAX:
        raise bad_request(f"'metadata' has more than {METADATA_KEYS_MAX} entries", param="metadata")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in given.items()
    }


def too_many_parts(limits: Limits, *, param: str) -> Problem:
    """Too many messages and attachments for one request."""
    return bad_request(
        f"'{param}' has more than {limits.content_parts_max} parts", param=param, code="too_many_parts"
    )


async def agent_names(deps: RouteDeps) -> Sequence[str]:
    """Return the agents that API clients can name as a model."""
    opened = deps.agent.features
    listing = [(one, opened[one.name]) for one in _NAMING if one.name in opened]
    return await asyncio.to_thread(
        lambda: [name for feature, library in listing for name in feature.part(feature.agent_names)(library)]
    )


async def with_agent(deps: RouteDeps, message: IncomingMessage) -> IncomingMessage:
    """Return the message with the settings of the agent that it names, if any; raises a Problem.

    People can name the agents of the workspace, and mention one as @name in front of the text. API clients
    have the user's own agents, also as a model.
    """
    settings, is_person = message.settings, message.source in PEOPLE_SOURCES
    if settings.purpose != "answer":
        return message
    if is_person and (mention := _MENTION.match(message.text)):
        found = await _with(deps, message, mention[1])
        if found is not None:
            # As a steering message, it would become part of a run with other settings.
            return replace(message, settings=found, when_busy="queue")
    if settings.agent:
        found = await _with(deps, message, settings.agent)
        if found is None:
            text = f"There is no agent {settings.agent[:100]!r}. holdfast agents lists them"
            raise bad_request(text, param="agent", code="agent_not_found")
        return replace(message, settings=found)
    if not is_person and settings.model and not _is_model(deps, settings.model):
        unnamed = replace(message, settings=replace(settings, model=""))
        found = await _with(deps, unnamed, settings.model)
        return message if found is None else replace(message, settings=found)
    return message


async def _with(deps: RouteDeps, message: IncomingMessage, name: str) -> RunSettings | None:
    """Return the message's settings with those of the agent, or None if there is none; raises a Problem."""
    is_here = message.source in PEOPLE_SOURCES or message.source == ONE_SHOT
    workspace = Path(message.settings.workspace or deps.agent.workspace) if is_here else None
    choice = AgentChoice(name, replace(message.settings, agent=""), workspace)
    opened = deps.agent.features

    def chosen() -> RunSettings | None:
        tried = (one.part(one.named_agent)(opened[one.name], choice) for one in _NAMING if one.name in opened)
        return next((found for found in tried if found is not None), None)

    try:
        return await asyncio.to_thread(chosen)
    except UnusableAgent as error:
        raise bad_request(str(error), param="agent", code="agent_unusable") from error


def check_options(settings: RunSettings, targets: Sequence[Target]) -> None:
    """Raise a Problem if the named target, or else the default one, doesn't support an option."""
    if not targets:
        return
    target = next((one for one in targets if settings.model in {one.name, one.model}), targets[0])
    if names := unsupported(target, settings):
        raise bad_request(refusal(target, names), param=names[0], code="unsupported_parameter")


def _is_model(deps: RouteDeps, name: str) -> bool:
    from holdfast.server.model_names import AGENT_NAMES  # only OpenAI's clients name one that isn't a target

    is_target = any(name in {one.name, one.model} for one in deps.options.targets)
    return is_target or name in {*AGENT_NAMES, deps.options.model}


def started(sent: Sent) -> Started:
    """The response to an accepted message."""
    return Started(
        run_id=sent.run_id,
        status="started" if sent.mode in {"send", "queue"} else "steered",
        session_id=sent.session_id,
        message_id=sent.message_id,
    )


WaitedFor: TypeAlias = Literal["approval", "answer", "client"]
_WAITS: Mapping[WaitedFor, str] = MappingProxyType(
    {
        "approval": "an approval",
        "answer": "an answer to its question",
        "client": "the results of its client's tools",
    }
)


def accepted(sent: Sent, *, waiting_for: WaitedFor | None = None) -> Accepted:
    """The response to a message for an active run, which may itself wait for someone."""
    answer = Accepted(
        run_id=sent.run_id,
        session_id=sent.session_id,
        message_id=sent.message_id,
        status="accepted",
        accepted=True,
        mode=sent.mode,
    )
    if waiting_for is None:
        return answer
    what = _WAITS[waiting_for]
    if sent.mode == "queue":
        note = f"The previous run is waiting for {what}. This message starts its own run after that one ends"
    else:
        note = (
            f"The run is waiting for {what}. The model reads your message after that, or when the wait "
            "expires"
        )
    return replace(answer, waiting_for=waiting_for, note=note)


@asynccontextmanager
async def reserved_place(deps: RouteDeps) -> AsyncGenerator[None]:
    """Reserve a place for a run while the block stores it.

    Raises a Problem if too many runs wait, or if the caller's key has used up its budget or its requests.
    """
    await deps.budgets.check(caller_name())
    waiting_max = deps.limits.queued_runs_max
    with deps.supervisor.resources.slots.reserve(waiting_max=waiting_max, key=caller_name()) as has_room:
        if not has_room:
            text = "Too many runs are queued. Retry later"
            raise too_many(text, code="queue_full", retry_after_s=10)
        yield


def not_sent(why: NotSent) -> Problem:
    """The error for a message that was refused; nothing of it is stored."""
    match why.why:
        case "session_deleted":
            return Problem(409, "The session is deleted", code="session_deleted", param="session_id")
        case "queue_full":
            text = "The session's queue is full. Resend the message later"
            return too_many(text, code="queue_full", retry_after_s=5)
        case "busy":
            return Problem(
                409, "The session already has an active run", code="session_busy", param="when_busy"
            )
        case "nothing_to_compact":
            text = "Nothing to compact: the conversation has no answer since the last summary"
            return Problem(409, text, code="nothing_to_compact")
        case "is_command":
            return Problem(409, "This run was a command. Send the command again", code="run_is_command")
        case "run_over":
            return Problem(409, "The run has ended and accepts no more input", code="run_not_accepting_steer")


def headers_of(row: RunRow, sent: Sent | Response | None) -> dict[str, str]:
    """The session and the run, as headers. Other letters than ASCII are quoted."""
    session_id = row.session_id if row.session_id.isascii() else quote(row.session_id)
    return {
        "X-Hermes-Session-Id": session_id,
        "X-Hermes-Run-Id": row.run_id,
        **(replay_headers(sent) if sent else {}),
    }


def raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Encode headers for ASGI."""
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
