"""A run as the Model Context Protocol tells it; each function is a pure one of events and folds."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

import msgspec

from holdfast import events as e
from holdfast.catalog import frames_for
from holdfast.features.mcp_server.bodies import RpcId
from holdfast.features.mcp_server.rpc import Json, notification
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunFold
from holdfast.runner.asks import QUESTION_CLOSED
from holdfast.server.runs.run_report import ask_of, code_of, error_of, preview, tool_args

POLL_MS = 2_000
TEXT_CHARS_MAX = 200_000
LINE_CHARS_MAX = 300
NO_TEXT = "(The agent ended without an answer.)"

_FEATURE_TEXTS = frames_for("mcp")

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


def progress(token: RpcId, at: float, text: str) -> Json:
    """How far a call is; `at` grows with every notification."""
    params = {"progressToken": token, "progress": at, "message": text[:LINE_CHARS_MAX]}
    return notification("notifications/progress", params)


def progress_text(event: e.Event, run: RunFold) -> str:
    """Describe an event in one line; empty if it isn't worth one. `run` may be ahead of the event."""
    if isinstance(event, e.AskSettled):
        return f"{event.ask_id} is resolved"
    match event:
        case e.RunStarted():
            return "The agent starts"
        case e.RunResumed():
            return "The server restarted, and the run continues"
        case e.ToolStarted():
            name = _tool_name(run, event.tool_call_id)
            about = preview(tool_args(run, event.tool_call_id))
            return f"{name}: {about}" if about else name
        case e.ToolEnded() if not event.ok:
            return f"{_tool_name(run, event.tool_call_id)} failed"
        case e.AttemptFailed():
            return f"The model call failed: {event.failure.text}"
        case e.ApprovalAsked():
            return f"Waiting for approval {event.approval_id}: {event.headline or event.action.summary}"
        case e.QuestionAsked():
            return f"Question {event.question_id}: {event.text}"
        case _:
            of_feature = _FEATURE_TEXTS.get(type(event))
            return "" if of_feature is None else of_feature(event)


def _tool_name(run: RunFold, tool_call_id: str) -> str:
    call = run.state.tools.get(tool_call_id)
    return call.asked.name if call else "tool"


def run_result(run: RunFold, row: RunRow) -> Json:
    """Build the tool's result for an ended run."""
    state, text = run.state, run.output
    about: Json = {"session_id": row.session_id, "run_id": row.run_id, "status": _status(state)}
    about |= {"outcome": state.outcome} if state.outcome else {}
    is_error = state.outcome not in {"completed", "refused"}
    said = [text] if text else []
    if is_error:
        said.append(f"[{error_of(state)}]")
        about["code"] = code_of(state)
    return tool_result("\n\n".join(said) or NO_TEXT, about, is_error=is_error)


def tool_result(text: str, about: Json, *, is_error: bool = False) -> Json:
    """The result of a tool: a text for the model, and fields for a program."""
    if len(text) > TEXT_CHARS_MAX:
        text = f"{text[:TEXT_CHARS_MAX]}\n[{len(text) - TEXT_CHARS_MAX} more characters omitted]"
    content = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": about, "isError": is_error}


def _status(run: Run) -> str:
    return "ended" if run.outcome else str(run.status)


def waiting_result(asked: e.PersonAsked, row: RunRow, *, can_answer: bool) -> Json:
    """Build the tool's result for a run that waits for a person the client can't prompt."""
    shown: Json = msgspec.to_builtins(ask_of(asked))
    about = {"session_id": row.session_id, "run_id": row.run_id, "status": "waiting_for_approval"}
    choices = list(asked.choices)
    if isinstance(asked, e.ApprovalAsked):
        text = f"The agent is waiting for approval {asked.approval_id} of this action: {question_text(asked)}"
        how = f"To answer, call the tool `answer` with the id and one of: {', '.join(choices)}."
    else:
        text = f"The agent asks ({asked.question_id}): {asked.text}"
        how = "To answer, call the tool `answer` with the id and the answer."
        how += f" Choices: {'; '.join(choices)}." if choices else ""
    if not can_answer:
        how = "Your key can't approve. Ask someone who can to answer on Holdfast's page."
    how += " Until then, the run waits. `get_run` shows its status."
    ask = {"id": asked.ask_id, "kind": "approval" if isinstance(asked, e.ApprovalAsked) else "question"}
    return tool_result(f"{text}\n\n{how}", about | {"ask": ask | shown})


def question_text(asked: e.PersonAsked) -> str:
    """Return the full text of the request."""
    if isinstance(asked, e.QuestionAsked):
        return asked.text
    action = asked.action
    lines = [asked.headline, action.summary, action.diff, *asked.findings]
    return "\n".join(dict.fromkeys(line for line in lines if line))


def elicitation(asked: e.PersonAsked) -> Json:
    """The form with which a client asks a person."""
    if isinstance(asked, e.ApprovalAsked):
        fields: Json = {
            "choice": {"type": "string", "title": "Decision", "enum": list(asked.choices)},
            "reason": {"type": "string", "title": "Reason"},
        }
        required = ["choice"]
        text = f"The agent wants to do this:\n{question_text(asked)}"
    else:
        answer: Json = {"type": "string", "title": "Answer"}
        if asked.choices:
            answer["description"] = f"For example: {'; '.join(asked.choices)}"
        fields, required, text = {"answer": answer}, ["answer"], asked.text
    schema = {"type": "object", "properties": fields, "required": required}
    return {"mode": "form", "message": text, "requestedSchema": schema}


def elicited_answer(asked: e.AskAsked, result: Mapping[str, Any]) -> tuple[str, str]:
    """The choice or answer that a form brought, and the reason; ValueError if it has none.

    Closing the form denies: only a choice is consent.
    """
    is_question = isinstance(asked, e.QuestionAsked)
    given = result.get("content")
    fields = cast("dict[str, object]", given) if isinstance(given, dict) else {}
    reason = fields.get("reason")
    reason = reason if isinstance(reason, str) else ""
    if "error" in result:
        raise ValueError("the response has an error")
    match result.get("action"):
        case "decline" | "cancel":
            return (QUESTION_CLOSED if is_question else "deny"), reason
        case "accept":
            said = fields.get("answer" if is_question else "choice")
            if isinstance(said, str) and said.strip():
                return said, reason
        case _:
            pass
    name = "answer" if is_question else "choice"
    raise ValueError(f"send the action 'accept' with a '{name}', or 'decline'")


def task(run: RunFold, row: RunRow, *, asks: Mapping[str, e.PersonAsked]) -> Json:
    """A run as a task; `asks` are what its client can ask a person about."""
    state = run.state
    status, text = _task_state(run, asks)
    shown: Json = {
        "taskId": row.run_id,
        "status": status,
        "createdAt": _iso(state.created_ms),
        "lastUpdatedAt": _iso(max(state.updated_ms, state.created_ms)),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    return shown | ({"statusMessage": text[:LINE_CHARS_MAX]} if text else {})


def task_detail(run: RunFold, row: RunRow, *, asks: Mapping[str, e.PersonAsked]) -> Json:
    """The same with what it waits for, or with its result."""
    shown = task(run, row, asks=asks)
    match shown["status"]:
        case "input_required":
            return shown | {"inputRequests": input_requests(asks)}
        case "completed":
            return shown | {"result": run_result(run, row)}
        case _:
            return shown


def input_requests(asks: Mapping[str, e.PersonAsked]) -> Json:
    """Return the forms for the client, by id of the approval or question."""
    return {
        ask_id: {"method": "elicitation/create", "params": elicitation(asked)}
        for ask_id, asked in asks.items()
    }


def _task_state(run: RunFold, asks: Mapping[str, e.PersonAsked]) -> tuple[TaskStatus, str]:
    state = run.state
    if state.outcome == "cancelled":
        return "cancelled", "The run was stopped"
    if state.outcome is not None:
        return "completed", ""
    if asks:
        return "input_required", "The agent is waiting for a person"
    waiting = [ask.asked for ask in state.open_person_asks]
    return "working", progress_text(waiting[0], run) if waiting else str(state.status)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
