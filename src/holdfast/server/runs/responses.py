"""Responses about runs: started, refused, and their status."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

from msgspec.structs import asdict

from holdfast import events as e
from holdfast.api.approvals import OpenApproval, OpenAsk, OpenQuestion
from holdfast.api.runs import Accepted, RunShown, RunState, Started
from holdfast.folds.asks import kind_of
from holdfast.folds.rows import AskRow, RunRow
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunReadModel
from holdfast.runner.inbox import NotSent, Sent
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, too_many
from holdfast.server.streams import hermes
from holdfast.server.streams.hermes import Status


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


def open_ask(ask: AskRow, asked: e.Event) -> OpenAsk | None:
    """An approval or question that waits; None if the event is neither."""
    if not isinstance(asked, e.ApprovalAsked | e.QuestionAsked):
        return None
    fields = asdict(hermes.ask_of(asked))
    fields |= {"run_id": ask.run_id, "session_id": ask.session_id, "asked_at": ask.asked_ms / 1000}
    return OpenApproval(**fields) if isinstance(asked, e.ApprovalAsked) else OpenQuestion(**fields)


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
        case "run_over":
            return Problem(409, "The run has ended and takes no more input", code="run_not_accepting_steer")


def run_state(fold: RunReadModel, row: RunRow) -> RunState:
    """A run's state, from its fold."""
    run = fold.state
    asks: dict[str, Any] = {}
    for asked in (ask.asked for ask in run.open_asks):
        if not isinstance(asked, e.ClientToolsAsked):
            asks.setdefault(kind_of(asked), hermes.ask_of(asked))
    return RunState(
        run_id=run.run_id,
        session_id=row.session_id,
        status=status_of(run),
        created_at=run.created_ms / 1000,
        updated_at=run.updated_ms / 1000,
        model=run.model or run.settings.model or run.target,
        last_event=hermes.milestone_of(fold),
        last_event_id=run.last_seq,
        output=fold.output,
        usage=hermes.usage_of(run) if run.outcome is not None or run.usage.output_tokens else None,
        metadata=run.settings.metadata,
        gated_until=run.gate_until_ms / 1000 if run.outcome is None and run.gate_until_ms else None,
        outcome=run.outcome,
        waiting_for=waiting_for(run),
        **asks,
        **_ending(run),
    )


def waiting_for(run: Run) -> Literal["approval", "answer"] | None:
    """What a run that waits for a person needs from them."""
    if run.status != "waiting_for_approval":
        return None
    return "approval" if any(kind_of(ask.asked) == "approval" for ask in run.open_asks) else "answer"


def status_of(run: Run) -> Status | str:
    """The run's status as hermes clients know it."""
    return hermes.STATUSES[run.outcome] if run.outcome else run.status


def _ending(run: Run) -> dict[str, Any]:
    """The fields of a RunState that say how the run ended."""
    match run.outcome:
        case None | "completed":
            return {}
        case "refused":
            return {"finish_reason": "refusal"}
        case "cancelled":
            return {"cause": run.cause}
        case _:
            hint = run.failure.hint if run.failure is not None else ""
            return {"error": hermes.error_of(run), "code": hermes.code_of(run), "hint": hint}


def run_shown(state: RunState, **more: Any) -> RunShown:
    """The same with what only the server knows."""
    return RunShown(**asdict(state) | more)
