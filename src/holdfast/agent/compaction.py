"""Shortens the conversation for the model: old tool results are removed, or the older part is summarized.

The transcript stays complete; each change is an event that a person can see and revert. A run shortens the
conversation when it nears the context window, by our own count or a provider's error. A person can start a
separate compaction run at any time.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.context import (
    context_with,
    newest_run,
    pinned_message,
    since_summary,
    tool_message,
    trimmed_message,
    with_attachment_texts,
)
from holdfast.folds.entries import Ending, Entry, Notice, Person, Text, ToolCard
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import CHARS_PER_TOKEN, ModelRequest, UserMessage
from holdfast.policy.tool_names import PATCHED, READ_RESULT, tool_kind
from holdfast.tools.registry import Registry
from holdfast.values import COMPACT, Failure, TrimmedResult

NEAR = 0.8  # of the window; past this, the next answer may not fit
KEPT = 0.25  # of the window; this much stays unchanged
TRIMMED_TO = 0.6  # of the window; if trimming leaves more, the next one would follow too soon
TRIMMED_CHARS_MIN = 1_000  # shorter results stay
RETRIED_AFTER = 0.05  # of the window; after a failed summary, this much must be added before the next one
SUMMARIZED_CHARS_MIN = 1_000  # a summary of less saves nothing
PIECE_CHARS_MAX = 4_000
FILES_MAX = 50
_SPEAKERS: Mapping[str, str] = MappingProxyType({"user": "USER", "assistant": "ASSISTANT", "tool": "TOOL"})
ASK = (
    "Below is the older part of a conversation between a user and an assistant that works with tools. "
    "Write a summary that lets the assistant continue without it. Use these four headings, and write "
    '"None" below a heading that has nothing:\n\n'
    "## Task\nWhat the user wants, in their own words where you can, with every condition.\n\n"
    "## Decisions\nWhat was decided or ruled out, by whom and why.\n\n"
    "## Done\nWhat was done and found: names, paths, numbers, commands, exact errors.\n\n"
    "## Open\nWhat is still to do, and what is uncertain.\n\n"
    "Don't list the files: that list is added. No introduction.\n\n"
)
FOCUS = "The user asks you to keep this in particular: {focus}\n\n"
EXTRACT = "(No model could write a summary, so this is an extract of the messages.)\n\n"
FILES = "\n\n## Files\n"
_FOCUS_CHARS_MAX = 2_000
_TASK = re.compile(r"^\W*task\b", re.IGNORECASE | re.MULTILINE)


class _Summary(Struct, frozen=True):
    """The text in place of the older part. `failure` says why no model wrote it."""

    text: str
    call_id: str = ""
    failure: str = ""


async def compact(view: SharedFold, log: RunLog, deps: AgentDeps, *, tokens: int) -> bool:
    """Shorten the conversation before a call of this size; False if nothing changed.

    If no model can summarize it, the run continues with all of it.
    """
    failed_at = view.transcript.uncompacted_tokens
    window = _window(view, log, deps)
    if failed_at and tokens < failed_at + RETRIED_AFTER * window:
        return False
    if await _trim(view, log, tokens=tokens, goal=int(TRIMMED_TO * window), window=window):
        return True
    entries = _older(view, log.run_id, kept_chars=_kept_chars(window))
    earlier = _earlier(view, log.run_id, room_chars=_kept_chars(window))
    if not entries or sum(map(_chars, entries)) + len(earlier) < SUMMARIZED_CHARS_MIN:
        return False
    summary = await _summarize(view, log, deps, entries=entries, ask=ASK)
    if isinstance(summary, _Summary):
        if not (why := _record(view, log, entries, summary, must_save=True)):
            await view.flush(log)
            return True
        summary = _no_summary(summary.call_id, why)
    log.emit(
        e.ContextCompactionFailed(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            failure=summary.failure.text,
            call_id=summary.call_id,
            tokens=tokens,
        )
    )
    await view.flush(log)
    return False


async def compact_overflow(view: SharedFold, log: RunLog, deps: AgentDeps, *, tokens: int) -> bool:
    """Shorten a conversation that a provider rejected as too long; False if there is nothing to shorten.

    At least half of it goes, because the window may be smaller than we think. If no model can summarize it,
    an extract takes its place.
    """
    window = _window(view, log, deps)
    goal = min(int(TRIMMED_TO * window), tokens // 2)
    if await _trim(view, log, tokens=tokens, goal=goal, window=window):
        return True
    entries = _older(view, log.run_id, kept_chars=_kept_chars(window))
    if not entries:
        return False
    summary = await _summarize(view, log, deps, entries=entries, ask=ASK)
    if isinstance(summary, NoAnswer):
        room_chars = _kept_chars(window) // 2
        earlier = _earlier(view, log.run_id, room_chars=room_chars // 2)
        text = EXTRACT + earlier + _as_text(entries, room_chars - len(earlier))
        summary = _Summary(text, failure=summary.failure.text)
    _record(view, log, entries, summary)
    await view.flush(log)
    return True


async def compact_all(view: SharedFold, log: RunLog, deps: AgentDeps) -> NoAnswer | None:
    """Add a summary of the whole conversation to the log, as its run's message asks; None if that is done."""
    run = view.transcript.runs[log.run_id]
    if any(isinstance(entry, Notice) and entry.notice == "compacted" for entry in run.entries):
        return None  # before a crash
    focus = view.session.inbox.messages[run.message_id].text.removeprefix(COMPACT).strip()[:_FOCUS_CHARS_MAX]
    ask = ASK + FOCUS.format(focus=focus) if focus else ASK
    entries = _older(view, log.run_id, kept_chars=0)
    summary = await _summarize(view, log, deps, entries=entries, ask=ask)
    if isinstance(summary, NoAnswer):
        return summary
    _record(view, log, entries, summary)
    await view.flush(log)
    return None


def has_something_to_compact(view: SharedFold) -> bool:
    """Whether the conversation has an answer that no summary covers yet."""
    newest = newest_run(view.transcript)
    shown = since_summary(view.transcript, newest)[1] if newest else ()
    return any(isinstance(entry, Text | ToolCard) for entry in shown)


def is_trimmed(view: SharedFold) -> bool:
    """Whether old tool results were removed from what the model sees."""
    shortened = view.transcript.shortened.values()
    return any(isinstance(one.event, e.ContextTrimmed) and one.reverted is None for one in shortened)


def with_reader(tools: Registry, view: SharedFold, deps: AgentDeps) -> Registry:
    """Return the tools with `read_result`, if something was trimmed."""
    if tools.get(READ_RESULT) is not None or not is_trimmed(view):
        return tools
    from holdfast.tools.read_result import ReadResult  # few runs need it

    return tools.with_group(READ_RESULT, [ReadResult(deps.store)])


async def _trim(view: SharedFold, log: RunLog, *, tokens: int, goal: int, window: int) -> bool:
    """Remove the largest old tool results, the oldest first; False if that alone doesn't reach the goal."""
    runs = view.transcript.runs
    sizes: dict[int, tuple[ToolCard, int]] = {}
    for entry in _older(view, log.run_id, kept_chars=_kept_chars(window)):
        if isinstance(entry, ToolCard) and entry.state == "ended" and not entry.trimmed_seq:
            saved = tool_message(entry, runs[entry.run_id]).tokens - trimmed_message(entry).tokens
            if saved * CHARS_PER_TOKEN >= TRIMMED_CHARS_MIN:
                sizes[entry.seq] = (entry, saved)
    chosen: list[ToolCard] = []
    left = tokens
    for card, saved in sorted(sizes.values(), key=lambda one: (-one[1], one[0].seq)):
        if left <= goal:
            break
        chosen.append(card)
        left -= saved
    if not chosen or left > goal:
        return False
    results = [
        TrimmedResult(run_id=card.run_id, tool_call_id=card.tool_call_id, chars=len(card.result))
        for card in sorted(chosen, key=lambda card: card.seq)
    ]
    log.emit(
        e.ContextTrimmed(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            results=tuple(results),
            tokens_before=tokens,
            tokens_after=left,
        )
    )
    await view.flush(log)
    return True


async def _summarize(
    view: SharedFold, log: RunLog, deps: AgentDeps, *, entries: Sequence[Entry], ask: str
) -> _Summary | NoAnswer:
    room_chars = int(NEAR * deps.context_window * CHARS_PER_TOKEN) - len(ask)
    earlier = _earlier(view, log.run_id, room_chars=room_chars // 2)
    text = earlier + _as_text(entries, room_chars - len(earlier))
    request = ModelRequest(messages=(UserMessage(ask + text),), model=deps.summary_model)
    answer = await deps.model.answer(request, log, turn=view.run(log.run_id).turns, purpose="compaction")
    if not isinstance(answer, Answer):
        return answer
    text = answer.text.strip()
    if not text:
        return _no_summary(answer.call_id, "The model wrote no summary.")
    if answer.finish != "stop":
        return _no_summary(answer.call_id, "The model didn't finish the summary.")
    if not _TASK.search(text):
        return _no_summary(answer.call_id, "The model's answer wasn't a summary.")
    return _Summary(text, answer.call_id)


def _no_summary(call_id: str, why: str) -> NoAnswer:
    hint = "Nothing has changed. Try again."
    return NoAnswer(call_id, Failure(kind="empty", text=why, hint=hint, rule="compaction"))


def _record(
    view: SharedFold, log: RunLog, entries: Sequence[Entry], summary: _Summary, *, must_save: bool = False
) -> str:
    """Append the summary to the log. Returns why not, if it must save tokens and doesn't."""
    transcript = view.transcript
    # Without entries, the conversation is the history that came with the run.
    upto_seq = entries[-1].seq if entries else 0
    pins = [id_ for id_ in transcript.pins if _is_before(transcript, id_, upto_seq)]
    notice = Notice(seq=0, at_ms=0, run_id=log.run_id, notice="compacted", text="")
    notice.upto_seq, notice.summary = upto_seq, summary.text + _files(transcript, upto_seq)
    notice.pinned = tuple(pins)
    before = ModelRequest(messages=view.context(log.run_id)).input_tokens
    after = ModelRequest(messages=context_with(transcript, log.run_id, notice)).input_tokens
    if must_save and after >= before:
        return "The summary is longer than the messages."
    log.emit(
        e.ContextCompacted(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            upto_seq=upto_seq,
            summary=notice.summary,
            tokens_before=before,
            tokens_after=after,
            call_id=summary.call_id,
            failure=summary.failure,
            pinned=notice.pinned,
        )
    )
    return ""


def _is_before(transcript: Transcript, pin: str, upto_seq: int) -> bool:
    found = pinned_message(transcript, pin)
    return found is not None and found.seq <= upto_seq


def _files(transcript: Transcript, upto_seq: int) -> str:
    """List the files that the model read or changed, the newest last."""
    found: dict[str, str] = {}
    for entry in transcript.entries:
        kind = tool_kind(entry.name) if isinstance(entry, ToolCard) and entry.ok else None
        if not isinstance(entry, ToolCard) or kind not in {"read", "write"} or entry.seq > upto_seq:
            continue
        for path in PATCHED.findall(str(entry.args.get("input", ""))):
            found.pop(path, "")
            found[path] = "changed"
        if isinstance(path := entry.args.get("path"), str):
            earlier = found.pop(path, "read")
            found[path] = "changed" if kind == "write" else earlier
    lines = [f"- {path[:300]} ({what})" for path, what in [*found.items()][-FILES_MAX:]]
    return FILES + "\n".join(lines) if lines else ""


def _window(view: SharedFold, log: RunLog, deps: AgentDeps) -> int:
    return deps.window_of(view.run(log.run_id).settings.model)


def _kept_chars(window: int) -> int:
    return int(KEPT * window * CHARS_PER_TOKEN)


def _older(view: SharedFold, run_id: str, *, kept_chars: int) -> Sequence[Entry]:
    """Return the entries before the newest `kept_chars` characters, keeping calls with their results."""
    _, shown = since_summary(view.transcript, run_id)
    said = [entry for entry in shown if isinstance(entry, Person | Text | ToolCard | Ending)]
    entries = [with_attachment_texts(view.transcript, entry) for entry in said]
    # The provider's window may be smaller than we think, so at least half must go.
    half_chars = sum(map(_chars, entries)) // 2
    kept_chars = min(kept_chars, half_chars)
    kept, cut = 0, len(entries)
    while cut and (cut == len(entries) or kept + _chars(entries[cut - 1]) <= kept_chars):
        cut -= 1
        kept += _chars(entries[cut])
    cut = _between_calls(entries, cut, half_chars)
    while 0 < cut < len(entries) and isinstance(entries[cut], Ending):
        cut += 1  # otherwise a request that came to nothing would be summarized as still open
    return entries[:cut]


def _earlier(view: SharedFold, run_id: str, *, room_chars: int) -> str:
    """Return the text before the entries: the last summary, or the caller's history."""
    summary, _ = since_summary(view.transcript, run_id)
    if summary is not None:
        return f"EARLIER: {_short(summary.summary.partition(FILES)[0], room_chars)}\n\n"
    history = view.transcript.runs[run_id].history or ()
    said = [message for message in history if message.role in _SPEAKERS and message.content]
    piece_chars = _piece_chars(len(said), room_chars)
    lines = [f"{_SPEAKERS[message.role]}: {_short(message.content, piece_chars)}\n\n" for message in said]
    return "".join(lines)[-room_chars:]


def _between_calls(entries: Sequence[Entry], cut: int, half_chars: int) -> int:
    """Move the cut before the call that it splits; after the call if less than half would go otherwise."""
    begin = end = cut
    while begin and end < len(entries) and _same_call(entries[begin - 1], entries[end]):
        begin -= 1
    while begin < end < len(entries) and _same_call(entries[end - 1], entries[end]):
        end += 1
    goes = sum(map(_chars, entries[:begin]))
    return begin if goes >= half_chars or end == len(entries) else end


def _same_call(one: Entry, other: Entry) -> bool:
    calls = (Text, ToolCard)
    return isinstance(one, calls) and isinstance(other, calls) and one.call_id == other.call_id


def _chars(entry: Entry) -> int:
    match entry:
        case Person():
            return len(entry.message.text)
        case Text():
            return len(entry.text)
        case ToolCard():
            return len(entry.result) + len(str(entry.args))
        case _:
            return 0


def _as_text(entries: Sequence[Entry], room_chars: int) -> str:
    """The entries as plain text; if that is too long, every piece is shortened equally."""
    piece_chars = _piece_chars(len(entries), room_chars)
    lines = [_line(entry, piece_chars) for entry in entries]
    return "\n\n".join(line for line in lines if line)[-room_chars:]


def _piece_chars(count: int, room_chars: int) -> int:
    return max(200, min(PIECE_CHARS_MAX, room_chars // max(1, count)))


def _line(entry: Entry, chars_max: int) -> str:
    match entry:
        case Person():
            return f"USER: {_short(entry.message.text, chars_max)}"
        case Text():
            return f"ASSISTANT: {_short(entry.text, chars_max)}"
        case ToolCard():
            args = _short(str(entry.args), chars_max // 4)
            return f"TOOL {entry.name} {args}: {_short(entry.result, chars_max)}"
        case Ending() if entry.outcome != "completed":
            return f"HERE THE RUN ENDED: {_short(entry.words, chars_max)}"
        case _:
            return ""


def _short(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]} … {text[-half:]}"
