"""Text for views that can't retract any: repetition adds nothing, and a difference restarts the answer."""

from holdfast import events as e
from holdfast.folds.entries import Text
from holdfast.folds.run_view import RunView
from holdfast.model_events import LONG_CHARS

RESTARTED = "\n\n[answer restarted]\n\n"


class AppendOnlyText:
    """Turns the text of a run's attempts into text that only grows.

    While a new attempt repeats what a superseded one said, nothing is added. At the first difference a line
    says that the answer restarted, and the new text follows from its beginning. Long texts aren't kept for
    comparison: after one, the answer always restarts.
    """

    __slots__ = ("_has_to_restart", "_repeated", "_repeating", "added")

    def __init__(self) -> None:
        self.added = ""  # by the newest event of the run
        self._has_to_restart = False
        self._repeating = ""  # what readers have of a superseded attempt
        self._repeated = 0  # how much of that the new attempt has repeated

    def apply(self, event: e.Event, run: RunView) -> None:
        """Take the next event, before the run's view does."""
        self.added = ""
        if isinstance(event, e.TextDelta):
            if run.answers:
                self.added = self._text(event.text)
        elif isinstance(event, e.AttemptSuperseded):
            self._supersede(run)
        elif isinstance(event, e.CallEnded) and event.finish != "failed":
            self.added = self._settle()

    def _text(self, text: str) -> str:
        if self._has_to_restart:
            self._has_to_restart = False
            return RESTARTED + text
        if not self._repeating:
            return text
        end = self._repeated + len(text)
        if self._repeating[self._repeated : end] == text:
            self._repeated = end
            if end == len(self._repeating):
                self._repeating, self._repeated = "", 0
            return ""
        return self._restart(self._repeating[: self._repeated] + text)

    def _restart(self, text: str) -> str:
        # If the new text only extends the old one, nothing has to be retracted.
        known, self._repeating, self._repeated = self._repeating, "", 0
        return text[len(known) :] if text.startswith(known) else RESTARTED + text

    def _supersede(self, run: RunView) -> None:
        self._repeated = 0
        if self._repeating or self._has_to_restart:
            return
        said = [text for text in run.entries if isinstance(text, Text) and text.call_id == run.call_id]
        if sum(text.gathered.total_chars for text in said) > LONG_CHARS:
            self._has_to_restart = True
        else:
            self._repeating = "".join([text.text for text in said])

    def _settle(self) -> str:
        """An answer that ends before it has repeated everything is a different answer."""
        if self._has_to_restart:
            self._has_to_restart = False
            return RESTARTED
        return self._restart(self._repeating[: self._repeated]) if self._repeating else ""
