"""The facts of a run that every face shows: its status, error, usage, requests and tool calls."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdfast import events as e
from holdfast.api.runs import (
    ApprovalShown,
    ClientCallShown,
    ClientToolsShown,
    QuestionShown,
    RunStatusShown,
    UsageShown,
)
from holdfast.folds.entries import ending_words
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunFold
from holdfast.interfaces.ids import client_call_id

PREVIEW_CHARS_MAX = 200

# The status of an ended run, by outcome.
STATUSES: Mapping[str, RunStatusShown] = MappingProxyType(
    {
        "completed": "completed",
        "refused": "completed",
        "truncated": "failed",
        "budget": "failed",
        "failed": "failed",
        "interrupted": "interrupted",
        "cancelled": "cancelled",
    }
)
_INTERRUPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "restart": (
            "The server restarted during this run, and on_restart is set not to resume it. Everything so "
            "far is saved. Resend the message, or retry the run."
        ),
        "crash_loop": (
            "The server restarted three times without progress, so this run wasn't resumed again. "
            "Everything so far is saved. Check the server's log for the cause, then retry the run."
        ),
    }
)


def usage_of(run: Run) -> UsageShown:
    """Return the run's usage."""
    usage = run.usage
    return UsageShown(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cost_usd=usage.cost_usd or None,
    )


def error_of(run: Run) -> str:
    """Return why the run didn't complete, for people."""
    if run.failure is not None:
        return "\n".join([run.failure.text, *run.trace])
    if run.outcome is None:
        return run.cause
    if run.outcome == "budget" and run.trace:
        return "\n".join(run.trace)
    if run.outcome == "interrupted" and run.cause in _INTERRUPTIONS:
        return _INTERRUPTIONS[run.cause]
    return f"{ending_words(run.outcome, run.cause, failure=None)}."


def code_of(run: Run) -> str:
    """Return why the run didn't complete, for programs."""
    if run.outcome == "interrupted":
        return "interrupted"
    if run.outcome in {"truncated", "budget"}:
        return str(run.outcome)
    return run.cause or str(run.outcome)


def ask_of(asked: e.PersonAsked) -> ApprovalShown | QuestionShown:
    """Return an approval request or a question."""
    expires_at = asked.expires_at_ms / 1000 if asked.expires_at_ms else None
    if isinstance(asked, e.ApprovalAsked):
        action = asked.action
        said = f"{asked.headline}." if asked.headline else ""
        return ApprovalShown(
            approval_id=asked.approval_id,
            tool_call_id=asked.tool_call_id,
            tool=action.tool,
            command=action.summary,
            description=" ".join(filter(None, (said, "; ".join(asked.findings)))) or action.summary,
            findings=asked.findings,
            action=action,
            choices=asked.choices,
            expires_at=expires_at,
            headline=asked.headline,
            offers=asked.offers,
            once_because=asked.once_because,
        )
    return QuestionShown(
        question_id=asked.question_id,
        tool_call_id=asked.tool_call_id,
        question=asked.text,
        choices=asked.choices,
        expires_at=expires_at,
    )


def client_calls_of(run: RunFold, asked: e.ClientToolsAsked) -> ClientToolsShown:
    """Return the calls that the client must run, under the ids for their results."""
    return ClientToolsShown(
        client_tools_id=asked.client_tools_id,
        calls=tuple(
            ClientCallShown(
                id=client_call_id(asked.client_tools_id, position),
                tool=tool_name(run, tool_call_id),
                args=tool_args(run, tool_call_id),
            )
            for position, tool_call_id in enumerate(asked.tool_call_ids)
        ),
        expires_at=asked.expires_at_ms / 1000 if asked.expires_at_ms else None,
    )


def tool_name(run: RunFold, tool_call_id: str) -> str:
    """Return the tool of a call."""
    call = run.state.tools.get(tool_call_id)
    return call.asked.name if call else ""


def tool_args(run: RunFold, tool_call_id: str) -> dict[str, object]:
    """Return the arguments of a tool call."""
    call = run.state.tools.get(tool_call_id)
    return call.asked.args if call else {}


def preview(args: Mapping[str, object]) -> str:
    """Summarize a tool call in one line: its first text argument, or all arguments."""
    texts = [value for value in args.values() if isinstance(value, str) and value.strip()]
    text = texts[0] if texts else msgspec.json.encode(args).decode() if args else ""
    return " ".join(text.split())[:PREVIEW_CHARS_MAX]
