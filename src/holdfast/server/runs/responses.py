"""What is said of runs over HTTP: that one was started, why one was not, and how one stands."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from holdfast.folds.asks import kind_of
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunReadModel
from holdfast.runner.inbox import NotSent, Sent
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, too_many
from holdfast.server.streams import hermes
from holdfast.server.streams.hermes import Status


def started(sent: Sent) -> dict[str, Any]:
    """The answer to a message that was taken."""
    status = "started" if sent.mode in {"send", "queue"} else "steered"
    answer = {"run_id": sent.run_id, "status": status, "session_id": sent.session_id}
    return answer | {"message_id": sent.message_id}


@contextmanager
def promised_place(deps: RouteDeps) -> Generator[None]:
    """Hold a place for a run while the block stores it; raises a Problem if too many runs wait for one."""
    with deps.supervisor.promised_place(waiting_max=deps.limits.queued_runs_max) as has_room:
        if not has_room:
            text = "Too many runs are waiting; send it again later"
            raise too_many(text, code="queue_full", retry_after_s=10)
        yield


def not_sent(why: NotSent) -> Problem:
    """The answer to a message that was not taken; nothing of it was stored."""
    match why.why:
        case "session_deleted":
            return Problem(409, "The session is deleted", code="session_deleted", param="session_id")
        case "queue_full":
            text = "The session's queue is full; send it again later"
            return too_many(text, code="queue_full", retry_after_s=5)
        case "busy":
            return Problem(409, "The session has a run under way", code="session_busy", param="when_busy")
        case "run_over":
            return Problem(409, "The run is over and takes no more input", code="run_not_accepting_steer")


def shown(fold: RunReadModel, row: RunRow) -> dict[str, Any]:
    """What a run's fold says of it."""
    run = fold.state
    answer: dict[str, Any] = {
        "object": "hermes.run",
        "run_id": run.run_id,
        "session_id": row.session_id,
        "status": status_of(run),
        "created_at": run.created_ms / 1000,
        "updated_at": run.updated_ms / 1000,
        "model": run.model or run.settings.model or run.target,
        "last_event": hermes.milestone_of(fold),
        "last_event_id": run.last_seq,
    }
    if text := fold.output:
        answer["output"] = text
    if run.outcome is not None or run.usage.output_tokens:
        answer["usage"] = hermes.usage_of(run)
    if run.settings.metadata:
        answer["metadata"] = run.settings.metadata
    return answer | _endings(run) | _asks(run)


def status_of(run: Run) -> Status | str:
    """The run's status in hermes' words."""
    return hermes.STATUSES[run.outcome] if run.outcome else run.status


def _endings(run: Run) -> dict[str, Any]:
    if run.outcome is None:
        return {"gated_until": run.gate_until_ms / 1000} if run.gate_until_ms else {}
    answer: dict[str, Any] = {"outcome": run.outcome}
    if run.outcome == "refused":
        answer["finish_reason"] = "refusal"
    elif run.outcome == "cancelled":
        answer["cause"] = run.cause
    elif run.outcome != "completed":
        answer |= {"error": hermes.error_of(run), "code": hermes.code_of(run)}
        if run.failure is not None and run.failure.hint:
            answer["hint"] = run.failure.hint
    return answer


def _asks(run: Run) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for ask in run.open_asks:
        answer.setdefault(kind_of(ask.asked), hermes.ask_of(ask.asked))
    return answer
