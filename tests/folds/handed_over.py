"""What a model must be shown of what people said, kept without the folds that it checks."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast import events as e
from holdfast.folds.context import SUMMARY_MARK, UNANSWERED
from holdfast.folds.transcript import Transcript, apply
from holdfast.messages import Message, UserMessage
from holdfast.values import HistoryMessage, TextPart
from strategies.legal_logs import Log

_MARK = UNANSWERED.split("{", maxsplit=1)[0]


@dataclass(slots=True)
class HandedOver:
    """A plain list of the hand-overs that stand."""

    standing: list[tuple[int, str, str]] = field(
        default_factory=list[tuple[int, str, str]]
    )  # seq, message, run
    summaries: list[tuple[int, str, int]] = field(
        default_factory=list[tuple[int, str, int]]
    )  # seq, run, upto
    texts: dict[str, str] = field(default_factory=dict[str, str])
    waiting: set[str] = field(default_factory=set[str])
    own: dict[str, str] = field(default_factory=dict[str, str])  # run -> the message that it is for
    histories: dict[str, tuple[HistoryMessage, ...] | None] = field(
        default_factory=dict[str, tuple[HistoryMessage, ...] | None]
    )
    begun: list[str] = field(default_factory=list[str])
    ended: dict[str, str] = field(default_factory=dict[str, str])  # run -> outcome

    def see(self, seq: int, event: e.Event) -> None:
        match event:
            case e.MessageAccepted():
                self.texts[event.message_id] = event.text
                self.waiting.add(event.message_id)
            case e.MessageEdited() if event.message_id in self.waiting:
                self.texts[event.message_id] = event.text
            case e.MessageRemoved():
                self.waiting.discard(event.message_id)
            case e.RunQueued():
                self.own[event.run_id], self.histories[event.run_id] = event.message_id, event.history
                self.waiting.add(event.message_id)
            case e.MessageDispatched():
                self._hand_over(seq, event.message_id, event.run_id)
            case e.RunStarted() if self.own[event.run_id] in self.waiting:
                self._hand_over(seq, self.own[event.run_id], event.run_id)
            case e.RunEnded():
                self.ended[event.run_id] = event.outcome
                self.waiting.discard(self.own[event.run_id])
            case e.SessionRewound():
                self.standing = [one for one in self.standing if one[0] <= event.to_seq]
                self.summaries = [one for one in self.summaries if one[0] <= event.to_seq]
            case _:
                self._summarize(seq, event)

    def _summarize(self, seq: int, event: e.Event) -> None:
        match event:
            case e.ContextReverted():
                self.summaries = [one for one in self.summaries if one[0] != event.reverted_seq]
            case e.ContextCompacted():
                self.summaries.append((seq, event.run_id, event.upto_seq))
            case _:
                pass

    def _hand_over(self, seq: int, message_id: str, run_id: str) -> None:
        self.waiting.discard(message_id)
        if run_id not in self.begun:
            self.begun.append(run_id)
        if (message_id, run_id) not in [one[1:] for one in self.standing]:
            self.standing = [one for one in self.standing if one[1] != message_id]
            self.standing.append((seq, message_id, run_id))

    def shown_to(self, run_id: str) -> list[str]:
        """What people said, as a call of this run is to show it."""
        history = self.histories[run_id]
        upto_this = self.begun[: self.begun.index(run_id) + 1]
        seen = [run_id] if history is not None else upto_this
        upto_seq, said = 0, [one.content for one in history or ()]
        for _, run, upto in self.summaries:
            if run == run_id or (run in seen and self.histories[run] is None):
                upto_seq, said = upto, ["(summary)"]
        return said + [self.texts[m] for seq, m, run in self.standing if run in seen and seq > upto_seq]


def _with_words_of_their_own(log: Log) -> Log:
    """Each message, and each edit of one, with a text that no other has."""

    def told(seq: int, event: e.Event) -> e.Event:
        if isinstance(event, e.MessageAccepted | e.MessageEdited):
            return replace(event, text=f"{event.message_id} at {seq}")
        return event

    return [(seq, told(seq, event)) for seq, event in log]


def _said(messages: tuple[Message, ...]) -> list[str]:
    texts = [message.text for message in messages if isinstance(message, UserMessage)]
    return ["(summary)" if text.startswith(SUMMARY_MARK) else text for text in texts]


def _marked(messages: tuple[Message, ...]) -> list[str]:
    people = [message for message in messages if isinstance(message, UserMessage)]
    return [
        one.text
        for one in people
        if any(isinstance(part, TextPart) and part.text.startswith(_MARK) for part in one.parts)
    ]


def check_a_model_is_shown_exactly_what_was_handed_over(
    log: Log, show: Callable[[Transcript, str], tuple[Message, ...]]
) -> None:
    """After every event of the log, of each run that has its message."""
    oracle, transcript = HandedOver(), Transcript()
    for seq, event in _with_words_of_their_own(log):
        oracle.see(seq, event)
        apply(transcript, seq, event)
        for run_id in {run for _, _, run in oracle.standing}:
            shown = show(transcript, run_id)
            assert _said(shown) == oracle.shown_to(run_id)
            marked = {oracle.texts[m]: run for _, m, run in oracle.standing}
            assert all(oracle.ended.get(marked[text]) not in {None, "completed"} for text in _marked(shown))
