"""Replaces the older part of the conversation with a summary for the model.

The transcript stays complete; the summary is an event. A run compacts when the conversation nears the context
window, by our own count or a provider's error. A person can start a separate compaction run at any time.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.context import context_with, since_summary
from holdfast.folds.entries import Ending, Entry, Notice, Person, Text, ToolCard
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import CHARS_PER_TOKEN, ModelRequest, UserMessage
from holdfast.values import COMPACT, Failure

NEAR = 0.8  # of the window; past this, the next answer may not fit
KEPT = 0.25  # of the window; this much stays unchanged
PIECE_CHARS_MAX = 4_000
_SPEAKERS: Mapping[str, str] = MappingProxyType({"user": "USER", "assistant": "ASSISTANT", "tool": "TOOL"})
ASK = (
    "Below is the older part of a conversation between a user and an assistant that works with tools. "
    "Write a summary that lets the assistant continue without it: what the user wants, what was "
    "decided, done and found (names, paths, numbers, exact errors), what is still to do. No introduction.\n\n"
)
FOCUS = "The user asks you to keep this in particular: {focus}\n\n"
_FOCUS_CHARS_MAX = 2_000
_NO_SUMMARY = Failure(
    kind="empty",
    text="The model wrote no summary.",
    hint="Nothing has changed. Try again.",
    rule="compaction",
)


async def compact(view: SharedFold, log: RunLog, deps: AgentDeps) -> bool:
    """Add a summary of the older part to the log; False if there is nothing to shorten or no summary."""
    entries = _older(view, log.run_id, kept_chars=int(KEPT * deps.context_window * CHARS_PER_TOKEN))
    return bool(entries) and await _summarize(view, log, deps, entries=entries, ask=ASK) is None


async def compact_all(view: SharedFold, log: RunLog, deps: AgentDeps) -> NoAnswer | None:
    """Add a summary of the whole conversation to the log, as its run's message asks; None if that is done."""
    run = view.transcript.runs[log.run_id]
    if any(isinstance(entry, Notice) and entry.notice == "compacted" for entry in run.entries):
        return None  # before a crash
    focus = view.session.inbox.messages[run.message_id].text.removeprefix(COMPACT).strip()[:_FOCUS_CHARS_MAX]
    ask = ASK + FOCUS.format(focus=focus) if focus else ASK
    entries = _older(view, log.run_id, kept_chars=0)
    return await _summarize(view, log, deps, entries=entries, ask=ask)


def has_something_to_compact(view: SharedFold) -> bool:
    """Whether the conversation has an answer that no summary covers yet."""
    newest = next(reversed(view.transcript.runs), "")
    shown = since_summary(view.transcript, newest)[1] if newest else ()
    return any(isinstance(entry, Text | ToolCard) for entry in shown)


async def _summarize(
    view: SharedFold, log: RunLog, deps: AgentDeps, *, entries: Sequence[Entry], ask: str
) -> NoAnswer | None:
    room_chars = int(NEAR * deps.context_window * CHARS_PER_TOKEN) - len(ask)
    earlier = _earlier(view, log.run_id, room_chars=room_chars // 2)
    text = earlier + _as_text(entries, room_chars - len(earlier))
    request = ModelRequest(messages=(UserMessage(ask + text),), model=deps.summary_model)
    answer = await deps.model.answer(request, log, turn=view.run(log.run_id).turns, purpose="compaction")
    if not isinstance(answer, Answer):
        return answer
    # Without entries, the conversation is the history that came with the run.
    summary, upto_seq = answer.text.strip(), entries[-1].seq if entries else 0
    if not summary:
        return NoAnswer(answer.call_id, _NO_SUMMARY)
    before = ModelRequest(messages=view.context(log.run_id))
    after = ModelRequest(
        messages=context_with(view.transcript, log.run_id, summary=summary, upto_seq=upto_seq)
    )
    log.emit(
        e.ContextCompacted(
            at_ms=log.now_ms(),
            run_id=log.run_id,
            upto_seq=upto_seq,
            summary=summary,
            tokens_before=before.input_tokens,
            tokens_after=after.input_tokens,
        )
    )
    await view.settled(log)
    return None


def _older(view: SharedFold, run_id: str, *, kept_chars: int) -> Sequence[Entry]:
    """Return the entries before the newest `kept_chars` characters, keeping calls with their results."""
    _, shown = since_summary(view.transcript, run_id)
    entries = [entry for entry in shown if isinstance(entry, Person | Text | ToolCard | Ending)]
    # The provider's window may be smaller than we think, so at least half must go.
    kept_chars = min(kept_chars, sum(map(_chars, entries)) // 2)
    kept, cut = 0, len(entries)
    while cut and (cut == len(entries) or kept + _chars(entries[cut - 1]) <= kept_chars):
        cut -= 1
        kept += _chars(entries[cut])
    while cut and _same_call(entries[cut - 1], entries[cut]):
        cut -= 1
    while 0 < cut < len(entries) and isinstance(entries[cut], Ending):
        cut += 1  # otherwise a request that came to nothing would be summarized as still open
    return entries[:cut]


def _earlier(view: SharedFold, run_id: str, *, room_chars: int) -> str:
    """Return the text before the entries: the last summary, or the caller's history."""
    summary, _ = since_summary(view.transcript, run_id)
    if summary is not None:
        return f"EARLIER: {_short(summary.summary, room_chars)}\n\n"
    history = view.transcript.runs[run_id].history or ()
    said = [message for message in history if message.role in _SPEAKERS and message.content]
    piece_chars = _piece_chars(len(said), room_chars)
    lines = [f"{_SPEAKERS[message.role]}: {_short(message.content, piece_chars)}\n\n" for message in said]
    return "".join(lines)[-room_chars:]


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
