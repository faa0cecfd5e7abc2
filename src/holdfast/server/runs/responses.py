"""Responses to messages: started, accepted, or refused."""

from collections.abc import Generator
from contextlib import contextmanager

from holdfast.api.runs import Accepted, Started
from holdfast.runner.inbox import NotSent, Sent
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, too_many


def started(sent: Sent) -> Started:
    """The response to an accepted message."""
    return Started(
        run_id=sent.run_id,
        status="started" if sent.mode in {"send", "queue"} else "steered",
        session_id=sent.session_id,
        message_id=sent.message_id,
    )


def accepted(sent: Sent) -> Accepted:
    """The response to a message for an active run."""
    return Accepted(
        run_id=sent.run_id,
        session_id=sent.session_id,
        message_id=sent.message_id,
        status="accepted",
        accepted=True,
        mode=sent.mode,
    )


@contextmanager
def reserved_place(deps: RouteDeps) -> Generator[None]:
    """Reserve a place for a run while the block stores it; raises a Problem if too many runs wait."""
    with deps.supervisor.reserved_place(waiting_max=deps.limits.queued_runs_max) as has_room:
        if not has_room:
            text = "Too many runs are waiting. Send the request again later"
            raise too_many(text, code="queue_full", retry_after_s=10)
        yield


def not_sent(why: NotSent) -> Problem:
    """The error for a message that was refused; nothing of it is stored."""
    match why.why:
        case "session_deleted":
            return Problem(409, "The session is deleted", code="session_deleted", param="session_id")
        case "queue_full":
            text = "The session's queue is full. Send the message again later"
            return too_many(text, code="queue_full", retry_after_s=5)
        case "busy":
            return Problem(
                409, "The session already has an active run", code="session_busy", param="when_busy"
            )
        case "nothing_to_compact":
            text = "There is nothing to compact: the conversation has no answer since the last summary"
            return Problem(409, text, code="nothing_to_compact")
        case "run_over":
            return Problem(409, "The run has ended and takes no more input", code="run_not_accepting_steer")
