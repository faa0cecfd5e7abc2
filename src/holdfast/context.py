"""What a model is shown, from the same fold as what people see."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.entries import Entry, Notice, Person, Text, Thinking, ToolCard
from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    Said,
    SaidText,
    Thought,
    ToolMessage,
    UserMessage,
)
from holdfast.run_view import RunView
from holdfast.transcript import Transcript
from holdfast.values import HistoryMessage

SUMMARY_MARK = "[Summary of the conversation up to here; the messages themselves are no longer shown.]\n\n"
NO_RESULT = "(no result: the run ended before this tool finished; whether it took effect is unknown)"
NO_RESULT_YET = "(no result yet: the tool is still running)"
NOT_RUN = "(not run)"
_INSTRUCTING_ROLES = frozenset({"system", "developer"})


@dataclass(slots=True)
class _Answer:
    """One call's answer while it is gathered: what was said, and the tool cards in the order of asking."""

    items: list[Said] = field(default_factory=list[Said])
    cards: list[ToolCard] = field(default_factory=list[ToolCard])


def context_for(transcript: Transcript, run_id: str) -> tuple[Message, ...]:
    """The messages of a call that this run makes now (for an ended run: at its end).

    A message counts once `message.dispatched` is in the log. Superseded and rewound stretches are not in the
    transcript, so they are not here. The last message may be an assistant message (an answer that was cut
    off is to be continued); no request may end so: the caller adds what is to be said next.
    """
    run = transcript.runs[run_id]
    entries = _entries_up_to(transcript, run)
    messages: list[Message] = []
    compacted = _last_compaction(transcript, run, entries)
    if compacted is not None:
        messages.append(UserMessage(SUMMARY_MARK + compacted.summary))
        entries = [entry for entry in entries if entry.seq > compacted.upto_seq]
    elif run.history is not None:
        messages.extend(_from_history(run.history))
    messages.extend(_messages(transcript, entries))
    return tuple(messages)


def history_instructions(transcript: Transcript, run_id: str) -> str:
    """What the system messages of a history that came with the run say; they are not among its messages."""
    history = transcript.runs[run_id].history or ()
    return "\n\n".join(message.content for message in history if message.role in _INSTRUCTING_ROLES)


def _entries_up_to(transcript: Transcript, run: RunView) -> list[Entry]:
    if run.history is not None:
        return [entry for entry in transcript.entries if entry.run_id == run.run_id]
    entries = transcript.entries
    last = next((n for n in reversed(range(len(entries))) if entries[n].run_id == run.run_id), -1)
    return entries[: last + 1]


def _last_compaction(transcript: Transcript, run: RunView, entries: list[Entry]) -> Notice | None:
    """A summary made for a run with a history of its own says nothing about the session's messages."""
    for entry in reversed(entries):
        if isinstance(entry, Notice) and entry.notice == "compacted":
            own = entry.run_id == run.run_id
            if own or transcript.runs[entry.run_id].history is None:
                return entry
    return None


def _from_history(history: Iterable[HistoryMessage]) -> Iterable[Message]:
    for message in history:
        if message.role == "assistant":
            yield AssistantMessage((SaidText(message.content),))
        elif message.role not in _INSTRUCTING_ROLES:
            yield UserMessage(message.content, message.parts)


def _messages(transcript: Transcript, entries: Iterable[Entry]) -> list[Message]:
    """User messages where they were taken up; each answer whole, with its tool results right after it."""
    order: list[UserMessage | _Answer] = []
    answers: dict[tuple[str, str], _Answer] = {}
    for entry in entries:
        if isinstance(entry, Person):
            order.append(UserMessage(entry.message.text, entry.message.parts))
        elif isinstance(entry, Text | Thinking | ToolCard):
            call = (entry.run_id, entry.call_id)
            if call not in answers:
                answers[call] = _Answer()
                order.append(answers[call])
            _add(answers[call], entry)
    messages: list[Message] = []
    for item in order:
        if isinstance(item, UserMessage):
            messages.append(item)
        else:
            messages.extend(_answer_messages(transcript, item))
    return messages


def _add(answer: _Answer, entry: Text | Thinking | ToolCard) -> None:
    if isinstance(entry, ToolCard):
        target = entry.target if entry.opaque else ""
        asked = AskedTool(entry.tool_call_id, entry.name, entry.args, entry.bad_args, entry.opaque, target)
        answer.items.append(asked)
        answer.cards.append(entry)
    elif isinstance(entry, Thinking):
        if entry.text or entry.opaque:
            answer.items.append(Thought(entry.text, entry.opaque, entry.target))
    # providers refuse a block of nothing but white space
    elif entry.text.strip():
        answer.items.append(SaidText(entry.text))


def _answer_messages(transcript: Transcript, answer: _Answer) -> list[Message]:
    # thinking that led to nothing is no message, and providers refuse it as one
    if all(isinstance(item, Thought) for item in answer.items):
        return []
    results = (_result(card, transcript.runs[card.run_id]) for card in answer.cards)
    return [AssistantMessage(tuple(answer.items)), *results]


def _result(card: ToolCard, run: RunView) -> ToolMessage:
    if card.state == "ended":
        return ToolMessage(card.tool_call_id, card.name, card.result, card.ok, card.parts)
    started = NO_RESULT_YET if run.ending is None else NO_RESULT
    text = started if card.state == "started" else NOT_RUN
    return ToolMessage(card.tool_call_id, card.name, text, ok=False)
