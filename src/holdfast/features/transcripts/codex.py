"""Sessions of Codex: JSON lines in `sessions/YYYY/MM/DD/rollout-….jsonl`, in order.

The format isn't documented. This follows the files that version 0.166 writes, and their earlier forms.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.features.transcripts.conversation import (
    ImportedConversation,
    ImportedMessage,
    ImportedToolCall,
    image_of,
)
from holdfast.features.transcripts.records import (
    Losses,
    Record,
    list_of,
    ms_of,
    records,
    table_of,
    tables_of,
    text_of,
)

PROGRAM, SOURCE = "Codex", "codex"
FOLDERS = {"sessions": False, "archived_sessions": True}  # and whether its sessions are archived
ITEMS = {
    *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", "local_shell_call", "web_search_call"),
}
EVENTS = {"thread_rolled_back", "turn_aborted", "error", "thread_name_updated"}
KINDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
# Notes of the program that are stored like messages of a person.
_ADDED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|skills_instructions|"
    r"turn_aborted|subagent_notification|user_shell_command)\b|# AGENTS\.md instructions)"
)


def is_record(record: Record) -> bool:
    """Whether this is a line of Codex: of today's form, or an item as early versions stored it."""
    return (text_of(record.get("type")) != "" and "payload" in record) or (
        "payload" not in record and (record.get("type") in ITEMS or "instructions" in record)
    )


def files(home: Path) -> Iterator[tuple[Path, bool]]:
    """The transcripts of all sessions, and whether they are archived."""
    for name, is_archived in FOLDERS.items():
        folder = home / name
        if not is_archived:
            next(folder.iterdir(), None)  # raises if there is none
        for path in sorted(folder.rglob("*.jsonl")):
            yield path, is_archived


def names_of(home: Path) -> dict[str, str]:
    """The names that people gave to sessions, by their ids."""
    index = home / "session_index.jsonl"
    if not index.is_file():
        return {}
    named = records(index, Losses(), is_record=lambda record: "thread_name" in record)
    return {text_of(one.get("id")): text_of(one.get("thread_name")) for one in named}


class _Session(Struct):
    """The conversation so far."""

    messages: list[ImportedMessage] = field(default_factory=list[ImportedMessage])
    session_id: str = ""
    title: str = ""
    model: str = ""
    workspace: str = ""
    is_of_sub_agent: bool = False

    def answer(self, at_ms: int) -> ImportedMessage:
        """The answer that the next item belongs to: items without a result between them are one."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or last.ending:
            self.messages.append(ImportedMessage(role="assistant", at_ms=at_ms))
        return self.messages[-1]

    def extend(self, at_ms: int, *, text: str = "", reasoning: str = "", lost: int = 0) -> None:
        """Add text to the answer."""
        answer = self.answer(at_ms)
        self.messages[-1] = replace(
            answer,
            text="\n\n".join(filter(None, (answer.text, text))),
            reasoning="\n\n".join(filter(None, (answer.reasoning, reasoning))),
            lost=answer.lost + lost,
        )

    def call(self, at_ms: int, call: ImportedToolCall) -> None:
        """Add a tool call to the answer."""
        answer = self.answer(at_ms)
        self.messages[-1] = replace(answer, tool_calls=(*answer.tool_calls, call))

    def end_answer(self, *, failed: str = "") -> None:
        """Note that the newest answer is incomplete, or that an error came instead."""
        if failed:
            self.messages.append(ImportedMessage(role="assistant", text=failed, ending="failed"))
        elif self.messages and self.messages[-1].role == "assistant":
            self.messages[-1] = replace(self.messages[-1], ending="partial")

    def roll_back(self, turns: int) -> int:
        """Remove the newest turns, as the person did there, and return the number of their messages."""
        starts = [place for place, message in enumerate(self.messages) if message.role == "user"]
        at = starts[-turns] if 0 < turns <= len(starts) else 0 if turns > 0 else len(self.messages)
        removed = len(self.messages) - at
        del self.messages[at:]
        return removed


def read_codex(
    path: Path, losses: Losses, *, archived: bool = False, names: Mapping[str, str] = MappingProxyType({})
) -> ImportedConversation | None:
    """Read a transcript as far as it is intact; None if it has no messages. Raises OSError."""
    session, removed = _Session(), 0
    for record in records(path, losses, is_record=is_record):
        payload = table_of(record.get("payload")) if "payload" in record else record
        kind = record.get("type") if "payload" in record else "response_item"
        match kind:
            case "session_meta":
                _read_meta(session, payload)
            case "response_item" if "instructions" in payload and "type" not in payload:
                _read_meta(session, payload)
            case "turn_context":
                session.model = text_of(payload.get("model")) or session.model
                session.workspace = session.workspace or text_of(payload.get("cwd"))
            case "response_item":
                _read_item(session, payload, ms_of(record), losses)
            case "event_msg":
                removed += _read_event(session, payload)
            case _:
                pass  # a compaction replaces nothing: the messages that it summarizes are all here
    if removed:
        losses.add(f"{removed} messages that were rolled back aren't imported")
    if session.is_of_sub_agent:
        losses.add("it's the work of a sub-agent, which isn't imported")
        return None
    if not session.messages:
        return None
    return ImportedConversation(
        session_id=f"{SOURCE}-{session.session_id or path.stem}",
        program=PROGRAM,
        source=SOURCE,
        messages=tuple(session.messages),
        title=session.title or names.get(session.session_id, ""),
        model=session.model,
        workspace=session.workspace,
        archived=archived,
        created_ms=next((message.at_ms for message in session.messages if message.at_ms), 0),
        origin=str(path),
    )


def _read_meta(session: _Session, payload: Record) -> None:
    if session.session_id:  # a fork begins with a copy of the other session
        return
    session.session_id = text_of(payload.get("id")) or text_of(payload.get("session_id"))
    session.workspace = text_of(payload.get("cwd"))
    session.is_of_sub_agent = "subagent" in table_of(payload.get("source"))


def _read_event(session: _Session, payload: Record) -> int:
    match payload.get("type"):
        case "thread_rolled_back":
            turns = payload.get("num_turns")
            return session.roll_back(turns) if isinstance(turns, int) else 0
        case "turn_aborted":
            session.end_answer()
        case "error":
            session.end_answer(failed=text_of(payload.get("message")))
        case "thread_name_updated":
            session.title = text_of(payload.get("thread_name")) or session.title
        case _:
            pass
    return 0


def _read_item(session: _Session, item: Record, at_ms: int, losses: Losses) -> None:
    kind = text_of(item.get("type"))
    call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
    match kind:
        case "message" if item.get("role") == "user":
            if (message := _of_person(item, at_ms)) is not None:
                session.messages.append(message)
        case "message" if item.get("role") == "assistant":
            parts = tables_of(item.get("content"))
            texts = [text_of(part.get("text")) for part in parts if "text" in part]
            session.extend(at_ms, text="\n\n".join(texts), lost=len(parts) - len(texts))
        case "message":
            pass  # instructions of the program
        case "reasoning":
            parts = [*tables_of(item.get("summary")), *tables_of(item.get("content"))]
            text = "\n\n".join(filter(None, (text_of(part.get("text")) for part in parts)))
            if text:
                session.extend(at_ms, reasoning=text)
        case "function_call" | "custom_tool_call":
            given = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
            session.call(at_ms, _call(call_id, text_of(item.get("name")), given))
        case "local_shell_call":
            session.call(at_ms, _call(call_id, "shell", table_of(item.get("action"))))
        case "function_call_output" | "custom_tool_call_output":
            session.messages.append(_result(call_id, item.get("output"), at_ms))
        case _:
            losses.add(f"an item of the type {kind or 'unknown'} isn't imported")


def _of_person(item: Record, at_ms: int) -> ImportedMessage | None:
    parts = tables_of(item.get("content"))
    about = table_of(item.get("internal_chat_message_metadata_passthrough"))
    kinds = list_of(about.get("content_item_kinds"))
    if len(kinds) == len(parts):
        parts = [part for part, kind in zip(parts, kinds, strict=True) if text_of(kind).startswith("user.")]
    texts = [text_of(part.get("text")) for part in parts if "text" in part]
    text = "\n\n".join(text for text in texts if not _ADDED.match(text))
    found = [image_of(text_of(part.get("image_url"))) for part in parts if "image_url" in part]
    images = tuple(image for image in found if image is not None)
    lost = len(parts) - len(texts) - len(images)
    if not (text or images or lost):
        return None
    return ImportedMessage(role="user", text=text, images=images, at_ms=at_ms, lost=lost)


def _call(call_id: str, name: str, given: object) -> ImportedToolCall:
    try:
        args = msgspec.json.decode(given) if isinstance(given, str) else given
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        args = None
    if isinstance(args, dict):
        return ImportedToolCall(call_id, name or "tool", table_of(cast("object", args)))
    return ImportedToolCall(call_id, name or "tool", {}, bad_args=text_of(given))


def _result(call_id: str, output: object, at_ms: int) -> ImportedMessage:
    whole = table_of(output)
    content = whole.get("content", output)
    parts = tables_of(content)
    texts = [text_of(content), *(text_of(part.get("text")) for part in parts)]
    return ImportedMessage(
        role="tool",
        text="\n".join(filter(None, texts)),
        tool_call_id=call_id,
        ok=whole.get("success") is not False,
        at_ms=at_ms,
        lost=sum("text" not in part for part in parts),
    )
