"""The visible entries of one run. Each event adds an entry, changes one, or does neither.

Text belongs to the last attempt that started before it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from holdfast import events as e
from holdfast.folds.activity import Activity
from holdfast.folds.asks import SETTLED_STATES, Settlement, ask_kind, settlement
from holdfast.folds.entries import (
    AskCard,
    Ending,
    Entry,
    Notice,
    NoticeKind,
    Text,
    Thinking,
    ToolCard,
    ending_words,
    saved_words,
)
from holdfast.folds.feature_folds import VIEW_STEPS
from holdfast.values import HistoryMessage, RunPurpose

_Output = TypeVar("_Output", Text, Thinking)


class RejectedAnswer(Struct):
    """An answer that can't be used, and why; the model corrects it."""

    seq: int
    text: str
    problem: str


class SupersededText(Struct, frozen=True):
    """Text that was shown and that the model is writing again."""

    text: str
    cause: Literal["restart", "retry"]


class RunView(Struct):
    """A run's entries, without superseded ones; a rewind of the session doesn't remove them here.

    A run that was stopped while it waited has entries too, but it never began: no model saw its message.
    """

    run_id: str
    message_id: str = ""
    history: tuple[HistoryMessage, ...] | None = None
    workspace: str = ""  # empty is the server's own
    purpose: RunPurpose = "answer"
    key: str = ""  # the name of the API key that started it
    is_given_more: bool = False  # its caller sent instructions or tools, or it's unattended
    sources: tuple[str, ...] = ()  # what the model is shown besides the conversation
    updated_ms: int = 0
    has_begun: bool = False
    call_id: str = ""
    attempt_id: str = ""
    target: str = ""
    answers: bool = True
    texts: dict[int, Text] = field(default_factory=dict[int, Text])
    thoughts: dict[int, Thinking] = field(default_factory=dict[int, Thinking])
    continued: set[int] = field(default_factory=set[int])  # segments whose text continues in the next one
    tools: dict[str, ToolCard] = field(default_factory=dict[str, ToolCard])
    asks: dict[str, AskCard] = field(default_factory=dict[str, AskCard])
    advice: dict[str, str] = field(default_factory=dict[str, str])  # by tool call, for the model alone
    via: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # by tool call: the tool that was called to call it
    entries: list[Entry] = field(default_factory=list[Entry])
    client_asks: dict[int, e.ClientToolsAsked] = field(
        default_factory=dict[int, e.ClientToolsAsked]
    )  # by seq
    rejected: RejectedAnswer | None = None
    superseded: SupersededText | None = None  # until the model has answered
    ending: Ending | None = None
    activity: Activity = field(default_factory=Activity)


def see(run: RunView, seq: int, event: Any) -> Entry | None:
    """Apply the event; return the entry that it adds, if any."""
    entry = STEPS[type(event)](run, seq, event)
    run.updated_ms = event.at_ms
    if entry is not None:
        run.entries.append(entry)
    return entry


def of_attempt(entry: Entry, run_id: str, *, attempt_id: str) -> bool:
    """Whether the entry is removed when the attempt is superseded; a started tool call stays."""
    if isinstance(entry, ToolCard):
        return entry.attempt_id == attempt_id and entry.run_id == run_id and entry.state == "asked"
    return isinstance(entry, Text | Thinking) and entry.attempt_id == attempt_id and entry.run_id == run_id


def _started(run: RunView, _: int, event: e.RunStarted) -> None:
    run.target = event.target
    run.has_begun = True


def _call_started(run: RunView, _: int, event: e.CallStarted) -> None:
    run.call_id = event.call_id
    run.answers = event.purpose == "answer"
    run.texts, run.thoughts = {}, {}


def _attempt_started(run: RunView, _: int, event: e.AttemptStarted) -> None:
    run.answers = run.answers or event.call_id != run.call_id  # continues after a summary that it needed
    run.call_id, run.attempt_id, run.target = event.call_id, event.attempt_id, event.target
    run.texts, run.thoughts = {}, {}


def _superseded(run: RunView, seq: int, event: e.AttemptSuperseded) -> None:
    gone = event.attempt_id
    texts = [entry.text for entry in run.entries if isinstance(entry, Text) and entry.attempt_id == gone]
    said = "".join(texts)
    if event.problem:
        earlier = run.rejected.text if run.rejected is not None else ""
        run.rejected = RejectedAnswer(seq, earlier + said, event.problem)
    elif said and (run.superseded is None or len(said) >= len(run.superseded.text)):
        last = run.entries[-1]
        is_resumed = isinstance(last, Notice) and last.notice == "resumed"
        run.superseded = SupersededText(said, "restart" if is_resumed else "retry")
    run.entries = [entry for entry in run.entries if not of_attempt(entry, run.run_id, attempt_id=gone)]
    run.tools = {
        id_: card for id_, card in run.tools.items() if not of_attempt(card, run.run_id, attempt_id=gone)
    }
    if run.attempt_id == gone:
        run.texts, run.thoughts = {}, {}


def _open(run: RunView, seq: int, event: Any, *, kind: type[_Output]) -> _Output:
    return kind(
        seq=seq,
        at_ms=event.at_ms,
        run_id=run.run_id,
        call_id=run.call_id,
        attempt_id=run.attempt_id,
        target=run.target,
        segment=event.segment,
    )


def _text(run: RunView, seq: int, event: e.TextDelta | e.TextDone) -> Text | None:
    known = run.texts.get(event.segment)
    entry = known or _open(run, seq, event, kind=Text)
    if isinstance(event, e.TextDone):
        entry.gathered.put(event.text)
        entry.done, entry.phase = True, event.phase
        if event.goes_on:
            run.continued.add(event.segment)
    else:
        entry.gathered.add(event.text)
    if known is not None:
        return None
    run.texts[event.segment] = entry
    # text of a call that compacts the context or finds a title is not part of the conversation
    return entry if run.answers else None


def _thought(run: RunView, seq: int, event: e.ReasoningDelta | e.ReasoningDone) -> Thinking | None:
    known = run.thoughts.get(event.segment)
    entry = known or _open(run, seq, event, kind=Thinking)
    if isinstance(event, e.ReasoningDelta):
        entry.gathered.add(event.text)
    else:
        entry.gathered.put(event.text)
        entry.done, entry.opaque = True, event.opaque
    if known is not None:
        return None
    run.thoughts[event.segment] = entry
    return entry if run.answers else None


def _tool_asked(run: RunView, seq: int, event: e.ToolAsked) -> ToolCard:
    card = run.tools[event.tool_call_id] = ToolCard(
        seq=seq,
        at_ms=event.at_ms,
        run_id=run.run_id,
        call_id=run.call_id,
        attempt_id=run.attempt_id,
        tool_call_id=event.tool_call_id,
        name=event.name,
        args=event.args,
        bad_args=event.bad_args,
        opaque=event.opaque,
        target=run.target,
    )
    if event.via:
        run.via[event.tool_call_id] = event.via
    return card


def _tool_started(run: RunView, _: int, event: e.ToolStarted) -> None:
    card = run.tools.get(event.tool_call_id)
    if card is not None:
        card.state = "started"
        run.superseded = None


def _tool_output(run: RunView, _: int, event: e.ToolOutput) -> None:
    card = run.tools.get(event.tool_call_id)
    if card is not None:
        card.gathered.add(event.text)


def _tool_ended(run: RunView, _: int, event: e.ToolEnded) -> None:
    card = run.tools.get(event.tool_call_id)
    if card is not None:
        card.state, card.ok, card.result, card.ending = "ended", event.ok, event.result, event.ending
        card.parts, card.blob, card.ms = event.parts, event.blob, event.ms
        if event.advice:
            run.advice[event.tool_call_id] = event.advice


def _asked(run: RunView, seq: int, event: e.PersonAsked) -> AskCard:
    card = run.asks[event.ask_id] = AskCard(
        seq=seq,
        at_ms=event.at_ms,
        run_id=run.run_id,
        ask=ask_kind(event),
        ask_id=event.ask_id,
        tool_call_id=event.tool_call_id,
        choices=event.choices,
        expires_at_ms=event.expires_at_ms,
    )
    if isinstance(event, e.ApprovalAsked):
        card.action, card.findings = event.action, event.findings
        card.headline, card.offers, card.once_because = event.headline, event.offers, event.once_because
    else:
        card.text = event.text
    return card


def _asked_client(run: RunView, seq: int, event: e.ClientToolsAsked) -> None:
    run.client_asks[seq] = event  # the tool cards show it to people


def _settled(run: RunView, _: int, event: e.AskSettled) -> None:
    _settle(run, event.ask_id, settlement(event))


def _settle(run: RunView, ask_id: str, how: Settlement) -> None:
    card = run.asks.get(ask_id)
    if card is not None and card.state == "open":
        card.state, card.answer, card.by, card.reason = how.state, how.answer, how.by, how.reason
        card.width = how.width


def _resumed(run: RunView, seq: int, event: e.RunResumed) -> Notice:
    return notice(run, seq, event, kind="resumed", text=f"Resumed after a {event.after}.")


def _switched(run: RunView, seq: int, event: e.TargetSwitched) -> Notice:
    run.target = event.to_target
    return notice(
        run, seq, event, kind="switched", text=f"Switched to {event.to_target} because {event.why}."
    )


def _gated(run: RunView, seq: int, event: e.CallGated) -> Notice:
    why = f" ({event.why})" if event.why else ""
    gated = notice(run, seq, event, kind="gated", text=f"{event.target} asked us to wait{why}.")
    gated.until_ms = event.until_ms
    return gated


def _compacted(run: RunView, seq: int, event: e.ContextCompacted) -> Notice:
    text = "Earlier messages were summarized for the model."
    if event.tokens_before:
        text = f"{text[:-1]}: about {event.tokens_before:,} → {event.tokens_after:,} tokens."
    if event.failure:
        text = f"{text[:-1]}, without a summary by a model: {event.failure}"
    compacted = notice(run, seq, event, kind="compacted", text=text)
    compacted.upto_seq, compacted.summary = event.upto_seq, event.summary
    compacted.pinned = event.pinned
    return compacted


def _trimmed(run: RunView, seq: int, event: e.ContextTrimmed) -> Notice:
    count = len(event.results)
    results = "1 old tool result" if count == 1 else f"{count} old tool results"
    saved = f"about {event.tokens_before:,} → {event.tokens_after:,} tokens"
    text = f"The model no longer sees {results}: {saved}."
    return notice(run, seq, event, kind="trimmed", text=text)


def _not_compacted(run: RunView, seq: int, event: e.ContextCompactionFailed) -> Notice:
    text = f"The conversation couldn't be summarized, so the model still sees all of it. {event.failure}"
    return notice(run, seq, event, kind="not_compacted", text=text)


def _saved(run: RunView, seq: int, event: e.AttachmentsSaved) -> Notice:
    return notice(run, seq, event, kind="saved", text=saved_words(event.files))


def _context_read(run: RunView, _: int, event: e.ContextRead) -> None:
    run.sources = (*run.sources, *event.sources)


def _noted(run: RunView, seq: int, event: e.ContextNoted) -> Notice:
    noted = notice(run, seq, event, kind="noted", text="A note to the model.")
    noted.summary = event.text
    return noted


def notice(run: RunView, seq: int, event: e.Event, *, kind: NoticeKind, text: str) -> Notice:
    """Add one line about the run."""
    return Notice(seq=seq, at_ms=event.at_ms, run_id=run.run_id, notice=kind, text=text)


def _ended(run: RunView, seq: int, event: e.RunEnded) -> Ending:
    close_asks(run)
    if event.outcome == "completed":
        run.superseded = None
    run.ending = Ending(
        seq=seq,
        at_ms=event.at_ms,
        run_id=run.run_id,
        outcome=event.outcome,
        cause=event.cause,
        words=ending_words(event.outcome, event.cause, failure=event.failure),
        failure=event.failure,
        trace=event.trace,
    )
    return run.ending


def close_asks(run: RunView) -> None:
    """Close the requests of an ended run, which can no longer be answered."""
    for ask_id in run.asks:
        _settle(run, ask_id, Settlement("withdrawn", reason="run_ended"))


STEPS: Mapping[type[e.Event], Callable[[RunView, int, Any], Entry | None]] = MappingProxyType(
    {
        e.RunStarted: _started,
        e.CallStarted: _call_started,
        e.AttemptStarted: _attempt_started,
        e.AttemptSuperseded: _superseded,
        e.TextDelta: _text,
        e.TextDone: _text,
        e.ReasoningDelta: _thought,
        e.ReasoningDone: _thought,
        e.ToolAsked: _tool_asked,
        e.ToolStarted: _tool_started,
        e.ToolOutput: _tool_output,
        e.ToolEnded: _tool_ended,
        e.ApprovalAsked: _asked,
        e.QuestionAsked: _asked,
        e.ClientToolsAsked: _asked_client,
        **dict.fromkeys(SETTLED_STATES, _settled),
        e.RunResumed: _resumed,
        e.TargetSwitched: _switched,
        e.CallGated: _gated,
        e.ContextCompacted: _compacted,
        e.ContextTrimmed: _trimmed,
        e.ContextCompactionFailed: _not_compacted,
        e.AttachmentsSaved: _saved,
        e.ContextRead: _context_read,
        e.ContextNoted: _noted,
        e.RunEnded: _ended,
        **VIEW_STEPS,
    }
)
