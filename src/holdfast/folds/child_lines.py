"""A sub-agent in few words: the line that shows what it does, and the end of what it said and did."""

from collections.abc import Sequence

from holdfast import events as e
from holdfast.folds.entries import Ending, Entry, Person, Text, ToolCard, ending_words
from holdfast.folds.transcript import Transcript

LINE_CHARS_MAX = 120


def progress_line(event: e.Event) -> str:
    """Describe a sub-agent's progress in one line; empty for other events."""
    match event:
        case e.ToolAsked():
            return short(tool_line(event.name, event.args))
        case e.TextDone() if event.text.strip():
            return short(event.text)
        case e.ApprovalAsked():
            return short(f"waits for an approval: {event.headline or event.action.summary}")
        case e.QuestionAsked():
            return short(f"asks: {event.text}")
        case e.RunEnded():
            return short(ending_words(event.outcome, event.cause, failure=event.failure))
        case _:
            return ""


def tool_line(name: str, args: dict[str, object]) -> str:
    """A tool call in one line: its name, and the first of its arguments."""
    first = next((str(value) for value in args.values() if isinstance(value, str | int | float)), "")
    return f"{name} {first}".strip()


def short(text: str) -> str:
    """The first line, cut where it is too long."""
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 1]}…"


def last_line(entries: Sequence[Entry]) -> str:
    """Return the last line of progress."""
    for entry in reversed(entries):
        if isinstance(entry, ToolCard):
            return short(tool_line(entry.name, entry.args))
        if isinstance(entry, Text) and entry.text.strip():
            return short(entry.text.strip().rpartition("\n")[2])
    return ""


def tail_of(transcript: Transcript, *, lines: int) -> str:
    """Return the last lines of a session's progress."""
    told = [line for entry in transcript.entries for line in _told(entry)]
    return "\n".join(told[-lines:])


def _told(entry: Entry) -> list[str]:
    match entry:
        case Person():
            return [f"> {line}" for line in entry.message.text.splitlines()]
        case Text():
            return entry.text.splitlines()
        case ToolCard():
            result = entry.result if entry.state == "ended" else entry.output
            return [f"[{short(tool_line(entry.name, entry.args))}]", *result.splitlines()]
        case Ending():
            return [f"({entry.words})"]
        case _:
            return []
