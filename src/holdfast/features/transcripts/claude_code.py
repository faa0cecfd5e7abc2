"""Sessions of Claude Code: JSON lines in `projects/FOLDER/ID.jsonl`, each with the line that it follows.

The format isn't documented. This follows the files that version 2.1 writes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.features.transcripts.conversation import (
    ImportedConversation,
    ImportedImage,
    ImportedMessage,
    ImportedToolCall,
    image_of,
)
from holdfast.features.transcripts.records import (
    Losses,
    Record,
    ms_of,
    records,
    table_of,
    tables_of,
    text_of,
)

PROGRAM, SOURCE = "Claude Code", "claude-code"
INTERRUPTED = "[Request interrupted by user"
_COMMAND = re.compile(
    r"<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>)?\s*$", re.DOTALL
)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_OWN_OUTPUT = (
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "Caveat: The messages",
)
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}  # the last one wins


def is_record(record: Record) -> bool:
    """Whether this is a line of Claude Code."""
    return "type" in record and ("sessionId" in record or "uuid" in record or record["type"] in _TITLES)


def files(home: Path) -> Iterator[Path]:
    """The transcripts of all sessions, without those of sub-agents."""
    for folder in sorted((home / "projects").iterdir()):
        if folder.is_dir():
            yield from sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith("agent-"))


class _Line(Struct):
    """A line of a person or the model, or one between such lines."""

    number: int
    follows: str  # the id of an earlier line
    message: Record | None = None
    record: Record = field(default_factory=dict[str, object])


class _Lines(Struct):
    """A transcript's lines by their ids, in order, and what it says of the session."""

    by_id: dict[str, _Line] = field(default_factory=dict[str, _Line])
    last: str = ""  # the id of the newest message
    titles: dict[str, str] = field(default_factory=dict[str, str])
    session_id: str = ""
    workspace: str = ""
    of_sub_agents: int = 0


def read_claude_code(path: Path, losses: Losses) -> ImportedConversation | None:
    """Read a transcript as far as it is intact; None if it has no messages. Raises OSError."""
    lines = _read(path, losses)
    if not lines.last:
        return None
    shown = _newest_branch(lines, losses)
    models = [text_of(line.message.get("model")) for line in shown if line.message]
    names = [model for model in models if model and not model.startswith("<")]
    messages = list(_messages(shown))
    title = next((lines.titles[kind] for kind in reversed(_TITLES) if lines.titles.get(kind)), "")
    return ImportedConversation(
        session_id=f"{SOURCE}-{lines.session_id or path.stem}",
        program=PROGRAM,
        source=SOURCE,
        messages=tuple(messages),
        title=title,
        model=names[-1] if names else "",
        workspace=lines.workspace,
        created_ms=next((message.at_ms for message in messages if message.at_ms), 0),
        origin=str(path),
    )


def _read(path: Path, losses: Losses) -> _Lines:
    lines = _Lines()
    for number, record in enumerate(records(path, losses, is_record=is_record)):
        kind = text_of(record.get("type"))
        if kind in _TITLES:
            lines.titles[kind] = text_of(record.get(_TITLES[kind]))
        line_id = text_of(record.get("uuid"))
        if not line_id:
            continue
        if record.get("isSidechain") is True:
            lines.of_sub_agents += 1
            continue
        follows = text_of(record.get("parentUuid")) or text_of(record.get("logicalParentUuid"))
        line = _Line(number, follows)
        if kind in {"user", "assistant"} and record.get("isMeta") is not True:
            line.message, line.record = table_of(record.get("message")), record
            lines.last = line_id
            lines.session_id = lines.session_id or text_of(record.get("sessionId"))
            lines.workspace = lines.workspace or text_of(record.get("cwd"))
        lines.by_id[line_id] = line
    if lines.of_sub_agents:
        losses.add(f"{lines.of_sub_agents} messages of sub-agents aren't imported")
    return lines


def _newest_branch(lines: _Lines, losses: Losses) -> list[_Line]:
    """The messages that lead to the newest one: a person may have gone back to an earlier one."""
    order = list(lines.by_id)
    places = {line_id: place for place, line_id in enumerate(order)}
    branch: dict[str, _Line] = {}
    line_id, gaps = lines.last, 0
    while line_id and line_id not in branch:
        branch[line_id] = lines.by_id[line_id]
        follows = branch[line_id].follows
        if follows and follows not in lines.by_id:
            gaps += 1
            place = places[line_id]
            follows = order[place - 1] if place else ""
        line_id = follows
    if gaps:
        losses.add(f"{gaps} messages refer to lines that are missing; the order of the file is used there")
    calls = {
        text_of(block.get("id"))
        for line in branch.values()
        for block in _blocks(line)
        if block.get("type") == "tool_use"
    }
    answers = {text_of((line.message or {}).get("id")) for line in branch.values()} - {""}
    # Concurrent tool calls and their results follow each other in several branches.
    for other, line in lines.by_id.items():
        is_result = any(text_of(block.get("tool_use_id")) in calls for block in _blocks(line))
        if is_result or text_of((line.message or {}).get("id")) in answers:
            branch[other] = line
    shown = sorted((line for line in branch.values() if line.message), key=lambda line: line.number)
    is_whole = shown and shown[0].record.get("isCompactSummary") is not True
    left = sum(line.message is not None for line in lines.by_id.values()) - len(shown)
    if left:
        losses.add(f"{left} messages of branches that were left aren't imported")
    # A summary stands for messages that are all here.
    return [line for line in shown if not (is_whole and line.record.get("isCompactSummary") is True)]


def _blocks(line: _Line) -> list[Record]:
    return tables_of((line.message or {}).get("content"))


def _messages(lines: list[_Line]) -> Iterator[ImportedMessage]:
    """An answer has a line for each of its blocks, which become one message."""
    waiting: ImportedMessage | None = None
    answer_id = ""
    results: list[ImportedMessage] = []
    for line in lines:
        if line.record.get("type") == "assistant":
            new_id = text_of((line.message or {}).get("id"))
            message = _answer(line)
            if waiting is not None and new_id and new_id == answer_id:
                waiting = _joined(waiting, message)
                continue
            if waiting is not None:
                yield waiting
            yield from results
            waiting, answer_id, results = message, new_id, []
            continue
        for message in _of_person(line):
            if message.role == "tool":
                results.append(message)
                continue
            if message.text.startswith(INTERRUPTED):
                waiting = waiting and replace(waiting, ending="partial")
                continue
            if waiting is not None:
                yield waiting
            yield from results
            waiting, results = None, []
            yield message
    if waiting is not None:
        yield waiting
    yield from results


def _joined(first: ImportedMessage, more: ImportedMessage) -> ImportedMessage:
    return replace(
        first,
        text="\n\n".join(filter(None, (first.text, more.text))),
        reasoning="\n\n".join(filter(None, (first.reasoning, more.reasoning))),
        tool_calls=(*first.tool_calls, *more.tool_calls),
        lost=first.lost + more.lost,
        ending=more.ending,
    )


def _answer(line: _Line) -> ImportedMessage:
    content = (line.message or {}).get("content")
    blocks = tables_of(content)
    kinds = [text_of(block.get("type")) for block in blocks]
    return ImportedMessage(
        role="assistant",
        text=text_of(content) or "\n\n".join(text_of(one.get("text")) for one in blocks if "text" in one),
        reasoning="\n\n".join(text_of(one.get("thinking")) for one in blocks if "thinking" in one),
        tool_calls=tuple(
            ImportedToolCall(text_of(one.get("id")), text_of(one.get("name")), table_of(one.get("input")))
            for one in blocks
            if one.get("type") == "tool_use" and text_of(one.get("name"))
        ),
        at_ms=ms_of(line.record),
        lost=sum(kind not in {"text", "thinking", "redacted_thinking", "tool_use"} for kind in kinds),
        ending="failed" if line.record.get("isApiErrorMessage") is True else "",
    )


def _of_person(line: _Line) -> Iterator[ImportedMessage]:
    """Results of tool calls, and then what the person said."""
    content = (line.message or {}).get("content")
    blocks = tables_of(content)
    at_ms = ms_of(line.record)
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = tables_of(block.get("content"))
            texts = [text_of(block.get("content")), *(text_of(part.get("text")) for part in parts)]
            yield ImportedMessage(
                role="tool",
                text="\n".join(filter(None, texts)),
                tool_call_id=text_of(block.get("tool_use_id")),
                ok=block.get("is_error") is not True,
                at_ms=at_ms,
                lost=sum("text" not in part for part in parts),
            )
    said = [text_of(content), *(text_of(one.get("text")) for one in blocks if one.get("type") == "text")]
    text = "\n\n".join(filter(None, map(_typed, said)))
    images = [_image(block) for block in blocks if block.get("type") == "image"]
    lost = sum(text_of(block.get("type")) not in {"text", "image", "tool_result"} for block in blocks)
    if text or images or lost:
        yield ImportedMessage(
            role="user",
            text=text,
            images=tuple(image for image in images if image is not None),
            at_ms=at_ms,
            lost=lost + images.count(None),
        )


def _typed(text: str) -> str:
    """Return the text that a person typed, without the program's tags and notes for the model."""
    text = _REMINDER.sub("", text).strip()
    if text.startswith(_OWN_OUTPUT):
        return ""
    if "<command-name>" in text and (command := _COMMAND.search(text)):
        return f"{command[1]} {command[2] or ''}".strip()
    return text


def _image(block: Record) -> ImportedImage | None:
    source = table_of(block.get("source"))
    return image_of(f"data:{text_of(source.get('media_type'))};base64,{text_of(source.get('data'))}")
