"""A run as responses show it: its state, from its fold, and what it waits for."""

from typing import Any, Literal

from msgspec.structs import asdict, replace

from holdfast import events as e
from holdfast.api.approvals import OpenApproval, OpenAsk, OpenQuestion
from holdfast.api.runs import RunChild, RunShown, RunState, RunStatusShown, UsageShown
from holdfast.folds.asks import ask_kind
from holdfast.folds.rows import RunRow
from holdfast.folds.run import ChildState, Run
from holdfast.folds.session_fold import RunFold
from holdfast.server.runs.run_report import (
    STATUSES,
    ask_of,
    client_calls_of,
    code_of,
    error_of,
    usage_of,
)
from holdfast.server.sessions.listing import SessionLogs, root_of
from holdfast.server.streams import hermes


def run_state(fold: RunFold, row: RunRow) -> RunState:
    """A run's state, from its fold."""
    run = fold.state
    asks: dict[str, Any] = {}
    for asked in (ask.asked for ask in (*run.open_asks, *run.open_person_asks)):
        is_client = isinstance(asked, e.ClientToolsAsked)
        shown = client_calls_of(fold, asked) if is_client else ask_of(asked)
        asks.setdefault(ask_kind(asked), shown)
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
        usage=usage_of(run) if run.outcome is not None or run.usage.output_tokens else None,
        agent=run.settings.agent,
        metadata=run.settings.metadata,
        gated_until=run.gate_until_ms / 1000 if run.outcome is None and run.gate_until_ms else None,
        outcome=run.outcome,
        waiting_for=waiting_for(run),
        pending_approval_id=asks["approval"].approval_id if "approval" in asks else "",
        pending_clarify_id=asks["question"].question_id if "question" in asks else "",
        refused_actions=run.refused_actions,
        children=tuple(_child(child) for child in run.children.values()),
        children_usage=_used_by_children(run),
        **asks,
        **_ending(run),
    )


def _child(child: ChildState) -> RunChild:
    started, ended = child.started, child.ended
    return RunChild(
        session_id=started.child_id,
        run_id=started.child_run_id,
        tool_call_id=started.tool_call_id,
        name=started.name,
        background=started.background,
        outcome=ended.outcome if ended is not None else None,
    )


def _used_by_children(run: Run) -> UsageShown | None:
    used = run.used_by_children
    if not run.children:
        return None
    return UsageShown(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        cost_usd=used.cost_usd or None,
    )


def waiting_for(run: Run) -> Literal["approval", "answer"] | None:
    """Return the kind of request that a run is waiting for."""
    if run.status != "waiting_for_approval":
        return None
    kinds = {ask_kind(ask.asked) for ask in run.open_person_asks}
    return "approval" if "approval" in kinds else "answer"


def waits_for_someone(run: Run) -> Literal["approval", "answer", "client"] | None:
    """The same, and the client whose tools the run waits for."""
    return "client" if run.status == "waiting_for_client" else waiting_for(run)


def run_shown(state: RunState, **more: Any) -> RunShown:
    """The same with what only the server knows."""
    return RunShown(**asdict(state) | more)


def status_of(run: Run) -> RunStatusShown | str:
    """The run's status as hermes clients know it."""
    return STATUSES[run.outcome] if run.outcome else run.status


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
            return {"error": error_of(run), "code": code_of(run), "hint": hint}


def open_ask_of(session_id: str, asked: e.Event) -> OpenAsk | None:
    """An approval or question that waits; None if the event is neither."""
    if not isinstance(asked, e.ApprovalAsked | e.QuestionAsked):
        return None
    fields = asdict(ask_of(asked))
    fields |= {"run_id": asked.run_id, "session_id": session_id, "asked_at": asked.at_ms / 1000}
    return OpenApproval(**fields) if isinstance(asked, e.ApprovalAsked) else OpenQuestion(**fields)


async def open_asks_in(logs: SessionLogs) -> list[OpenAsk]:
    """The approvals and questions that wait, each with the session in which people see it."""
    data: list[OpenAsk] = []
    for ask in await logs.open_asks():
        found = await logs.read(ask.session_id, after=ask.seq - 1, limit=1)
        shown = open_ask_of(ask.session_id, found[0].event) if found else None
        if shown is not None:
            data.append(await _with_session(logs, shown))
    return data


async def _with_session(logs: SessionLogs, ask: OpenAsk) -> OpenAsk:
    root_id = await root_of(logs, ask.session_id)
    root = await logs.session(root_id)
    named = {} if root is None else {"title": root.title or root.preview, "source": root.source}
    return replace(ask, root_session_id=root_id if root_id != ask.session_id else "", **named)
