"""A session's log as updates of the Agent Client Protocol, as pure functions of an entry or event.

Editors can't retract text, so live text uses the view without retraction, which marks where an answer
restarts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
    UserMessageChunk,
)

from holdfast import events as e
from holdfast.catalog import frames_for
from holdfast.folds.entries import Ending, Entry, Person, Text, Thinking, ToolCard
from holdfast.folds.session_fold import RunFold
from holdfast.policy.tool_names import tool_kind
from holdfast.tools.arguments import mapping

Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | AgentPlanUpdate
    | ToolCallStart
    | ToolCallProgress
)
TITLE_CHARS_MAX = 200
OUTPUT_CHARS_MAX = 8_000
RESULT_CHARS_MAX = 60_000
RAW_CHARS_MAX = 10_000  # of an argument; the text of a file is shown as a diff
_FEATURE_UPDATES = frames_for("acp")
_KINDS: dict[str, ToolKind] = {
    "command": "execute",
    "read": "read",
    "read_tree": "search",
    "write": "edit",
    "fetch": "fetch",
}


def entry_updates(entry: Entry, workspace: str) -> Iterator[Update]:
    """Yield the updates for a transcript entry, when an editor opens a session."""
    match entry:
        case Person():
            yield user_text(entry.message.text, entry.message.message_id)
        case Text() if entry.text:
            yield agent_text(entry.text, entry.call_id)
        case Thinking() if entry.text:
            yield thought(entry.text, entry.call_id)
        case ToolCard():
            yield tool_start(entry, workspace)
            if entry.state == "ended":
                yield tool_ended(entry, ok=entry.ok, result=entry.result)
            elif entry.state == "started":
                yield tool_running(entry)
        case Ending() if entry.outcome not in {"completed", "refused"}:
            yield agent_text(f"[{entry.words}]", f"{entry.run_id}-ending")
        case _:
            return


def event_updates(event: e.Event, run: RunFold, workspace: str) -> Iterator[Update]:
    """Yield the updates for a live event. `run` is the run after it."""
    if text := run.added_text:
        yield agent_text(text, _call_id(run))
    match event:
        case e.ReasoningDelta() if run.state.answers:
            yield thought(event.text, _call_id(run))
        case e.ToolAsked() | e.ToolStarted() | e.ToolOutput() | e.ToolEnded():
            yield from _tool_updates(event, run, workspace)
        case _:
            yield from feature_updates(event)


def feature_updates(event: e.Event) -> Iterator[Update]:
    """Return the update for a feature's event, if it has one."""
    if (update := _FEATURE_UPDATES.get(type(event))) is not None:
        yield update(event)


def _tool_updates(
    event: e.ToolAsked | e.ToolStarted | e.ToolOutput | e.ToolEnded, run: RunFold, workspace: str
) -> Iterator[Update]:
    card = card_of(run, event.tool_call_id)
    if card is None:
        return
    match event:
        case e.ToolAsked():
            yield tool_start(card, workspace)
        case e.ToolEnded():
            yield tool_ended(card, ok=event.ok, result=event.result)
        case _:
            yield tool_running(card)


def card_of(run: RunFold, tool_call_id: str) -> ToolCard | None:
    """The call of a tool as people see it."""
    cards = (entry for entry in reversed(run.view.entries) if isinstance(entry, ToolCard))
    return next((card for card in cards if card.tool_call_id == tool_call_id), None)


def _call_id(run: RunFold) -> str:
    """The call to the model that the newest output is of."""
    said = (entry.call_id for entry in reversed(run.view.entries) if isinstance(entry, Text | Thinking))
    return next(said, run.state.run_id)


def user_text(text: str, message_id: str) -> UserMessageChunk:
    """A person's message, sent from wherever."""
    return UserMessageChunk(
        session_update="user_message_chunk", content=_block(text), message_id=message_id or None
    )


def agent_text(text: str, message_id: str) -> AgentMessageChunk:
    """More of the answer."""
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=_block(text), message_id=message_id
    )


def thought(text: str, call_id: str) -> AgentThoughtChunk:
    """More of what the model thinks."""
    return AgentThoughtChunk(
        session_update="agent_thought_chunk", content=_block(text), message_id=f"{call_id}-thought"
    )


def tool_start(card: ToolCard, workspace: str) -> ToolCallStart:
    """A call of a tool, before anything happens; paths are relative to the workspace."""
    kind, path = _kind(card.name), card.args.get("path")
    where = str(Path(workspace) / path) if isinstance(path, str) and kind != "other" else ""
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=card.tool_call_id,
        title=tool_title(card.name, card.args),
        kind=kind,
        status="pending",
        raw_input=_shortened(card.args) or card.bad_args[:RAW_CHARS_MAX] or None,
        locations=[ToolCallLocation(path=where)] if where else None,
        content=_diff(where, card.args) if where and kind == "edit" else None,
    )


def tool_running(card: ToolCard) -> ToolCallProgress:
    """That a tool works, and the end of its output so far."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=card.tool_call_id,
        status="in_progress",
        content=[_content(card.output[-OUTPUT_CHARS_MAX:])] if card.output else None,
    )


def tool_ended(card: ToolCard, *, ok: bool, result: str) -> ToolCallProgress:
    """Return the result of a call. A change stays visible as a diff, which content would replace."""
    is_shown = ok and _kind(card.name) == "edit"
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=card.tool_call_id,
        status="completed" if ok else "failed",
        content=[_content(result[:RESULT_CHARS_MAX])] if result and not is_shown else None,
    )


def permission(event: e.ApprovalAsked, card: ToolCard | None, workspace: str) -> ToolCallUpdate:
    """Return the action that needs approval.

    A change is also shown as a diff, which editors show best. But only the action itself is exact, so its
    text is always included.
    """
    diff = tool_start(card, workspace).content if card is not None else None
    said = [event.action.diff or event.action.summary, *event.findings]
    return ToolCallUpdate(
        tool_call_id=event.tool_call_id,
        title=event.headline or event.action.summary,
        content=[*(diff or ()), _content("\n".join(said))],
    )


def _kind(name: str) -> ToolKind:
    return _KINDS.get(tool_kind(name) or "", "other")


def tool_title(name: str, args: dict[str, Any]) -> str:
    """Describe a call in one line."""
    texts = [value for value in args.values() if isinstance(value, str) and value.strip()]
    about = " ".join(texts[0].split())[:TITLE_CHARS_MAX] if texts else ""
    return f"{name}: {about}" if about else name


def _shortened(args: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value[:RAW_CHARS_MAX]}…" if isinstance(value, str) and len(value) > RAW_CHARS_MAX else value
        for name, value in args.items()
    }


def _block(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def _content(text: str) -> ContentToolCallContent:
    return ContentToolCallContent(type="content", content=_block(text))


def _diff(
    path: str, args: dict[str, Any]
) -> list[ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent] | None:
    """A change of a file, as far as the arguments say it."""
    edits: list[object] = args["edits"] if isinstance(args.get("edits"), list) else [args]
    shown: list[ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent] = []
    for edit in edits:
        old, new = mapping(edit).get("old_text"), mapping(edit).get("new_text", args.get("content"))
        if not isinstance(new, str):
            return None
        before = old if isinstance(old, str) else None
        shown.append(FileEditToolCallContent(type="diff", path=path, old_text=before, new_text=new))
    return shown or None
