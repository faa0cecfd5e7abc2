"""The log of a session as updates of the Agent Client Protocol; each is a pure function of an entry or event.

Text that a retry takes back can't be taken back in an editor, so live text is what views without retraction
get: an answer that begins again says so.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolKind,
    UserMessageChunk,
)

from holdfast import events as e
from holdfast.folds.entries import Ending, Entry, Person, Text, Thinking, ToolCard
from holdfast.folds.session_fold import RunReadModel
from holdfast.policy.tool_names import tool_kind

Update: TypeAlias = (
    UserMessageChunk | AgentMessageChunk | AgentThoughtChunk | ToolCallStart | ToolCallProgress
)
TITLE_CHARS_MAX = 200
OUTPUT_CHARS_MAX = 8_000
RESULT_CHARS_MAX = 60_000
_KINDS: dict[str, ToolKind] = {
    "command": "execute",
    "read": "read",
    "read_tree": "search",
    "write": "edit",
    "fetch": "fetch",
}


def entry_updates(entry: Entry, workspace: str) -> Iterator[Update]:
    """What an editor is told of an entry of the transcript, when it opens a session."""
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
                yield tool_ended(entry.tool_call_id, ok=entry.ok, result=entry.result)
            elif entry.state == "started":
                yield tool_running(entry)
        case Ending() if entry.outcome not in {"completed", "refused"}:
            yield agent_text(f"[{entry.words}]", f"{entry.run_id}-ending")
        case _:
            return


def event_updates(event: e.Event, run: RunReadModel, workspace: str) -> Iterator[Update]:
    """What an editor is told of an event as it happens; `run` is the run after it."""
    if text := run.added_text:
        yield agent_text(text, _call_id(run))
    match event:
        case e.ReasoningDelta() if run.state.answers:
            yield thought(event.text, _call_id(run))
        case e.ToolAsked() | e.ToolStarted() | e.ToolOutput() | e.ToolEnded():
            yield from _tool_updates(event, run, workspace)
        case _:
            return


def _tool_updates(
    event: e.ToolAsked | e.ToolStarted | e.ToolOutput | e.ToolEnded, run: RunReadModel, workspace: str
) -> Iterator[Update]:
    card = next(
        (
            entry
            for entry in reversed(run.view.entries)
            if isinstance(entry, ToolCard) and entry.tool_call_id == event.tool_call_id
        ),
        None,
    )
    if card is None:
        return
    match event:
        case e.ToolAsked():
            yield tool_start(card, workspace)
        case e.ToolEnded():
            yield tool_ended(event.tool_call_id, ok=event.ok, result=event.result)
        case _:
            yield tool_running(card)


def _call_id(run: RunReadModel) -> str:
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
    kind, path = _KINDS.get(tool_kind(card.name) or "", "other"), card.args.get("path")
    where = str(Path(workspace) / path) if isinstance(path, str) and kind != "other" else ""
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=card.tool_call_id,
        title=tool_title(card.name, card.args),
        kind=kind,
        status="pending",
        raw_input=card.args or card.bad_args or None,
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


def tool_ended(tool_call_id: str, *, ok: bool, result: str) -> ToolCallProgress:
    """What came of a call."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=tool_call_id,
        status="completed" if ok else "failed",
        content=[_content(result[:RESULT_CHARS_MAX])] if result else None,
    )


def tool_title(name: str, args: dict[str, Any]) -> str:
    """What a call does, in one line."""
    texts = [value for value in args.values() if isinstance(value, str) and value.strip()]
    about = " ".join(texts[0].split())[:TITLE_CHARS_MAX] if texts else ""
    return f"{name}: {about}" if about else name


def _block(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def _content(text: str) -> ContentToolCallContent:
    return ContentToolCallContent(type="content", content=_block(text))


def _diff(
    path: str, args: dict[str, Any]
) -> list[ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent] | None:
    """A change of a file, as far as the arguments say it."""
    old, new = args.get("old_text"), args.get("new_text", args.get("content"))
    if not isinstance(new, str):
        return None
    before = old if isinstance(old, str) else None
    return [FileEditToolCallContent(type="diff", path=path, old_text=before, new_text=new)]
