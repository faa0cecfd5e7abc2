"""Responses to messages: started, accepted, or refused; and the headers that name a run."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import quote

from msgspec.structs import replace
from starlette.responses import Response

from holdfast.api.runs import Accepted, Started
from holdfast.folds.rows import RunRow
from holdfast.runner.inbox import NotSent, Sent
from holdfast.server.access.caller import caller_name
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, too_many
from holdfast.server.transport.once import replay_headers


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
    with deps.supervisor.reserved_place(waiting_max=waiting_max, key=caller_name()) as has_room:
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
