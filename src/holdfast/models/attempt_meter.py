"""What an attempt used: its provider's report, completed by an estimate if the attempt ended early."""

from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.messages import CHARS_PER_TOKEN
from holdfast.model_events import ArgsPiece, ModelEvent, ReasoningPiece, TextPiece, TokensUsed

_NO_TOKENS = TokensUsed()


@dataclass(slots=True)
class AttemptMeter:
    """Counts one attempt.

    A provider reports usage with the last event, so an attempt that ends early would otherwise be free.
    """

    input_tokens: int  # estimated
    answers: int = 1  # that the provider charges for; only the text of the first is counted
    is_sent: bool = False
    is_whole: bool = False
    is_refused: bool = False  # the provider sent an error, or hung up without a response
    chars: int = 0  # of text, reasoning and arguments
    reported: TokensUsed | None = None

    def count(self, event: ModelEvent) -> None:
        """Count the text of one event."""
        if isinstance(event, TextPiece | ReasoningPiece | ArgsPiece):
            self.chars += len(event.text)

    def total(self) -> TokensUsed | None:
        """The report if it is complete, else an estimate; None if nothing was used."""
        reported = self.reported or _NO_TOKENS
        has_report = bool(reported.input_tokens or reported.output_tokens)
        is_free = not (self.answers and self.is_sent) or (self.is_refused and not self.chars)
        made = self.answers * max(1, self.chars // CHARS_PER_TOKEN) if self.chars else 0
        is_complete = has_report and (self.is_whole or made <= reported.output_tokens)
        if is_free or is_complete:
            return self.reported
        return replace(
            reported,
            input_tokens=reported.input_tokens if has_report else self.input_tokens,
            output_tokens=max(made, reported.output_tokens),
            is_estimate=True,
        )
