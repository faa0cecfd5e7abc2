"""Text for views that cannot take it back: what a new attempt repeats is held back, a difference is said."""

from holdfast import events as e
from holdfast.folds.gathered import Gathered
from holdfast.model_events import LONG_CHARS

RESTARTED = "\n\n[answer restarted]\n\n"


class AppendOnlyText:
    """Turns the text of a run's attempts into text that is only ever added to.

    While a new attempt says what a superseded one said, nothing is added. At the first difference one line
    says that the answer restarted, and the new text follows from its beginning. A long text is not kept to be
    compared with: after that, the answer restarts in any case.
    """

    def __init__(self) -> None:
        self._said = Gathered()  # what readers have of the attempt under way, unless that is long
        self._is_long = False
        self._has_to_restart = False
        self._repeating = ""  # what readers have of an attempt that no longer counts
        self._repeated = 0  # how much of that was said again
        self._answers = True

    def add(self, event: e.Event) -> str:
        """What readers get to see because of the event; mostly nothing."""
        match event:
            case e.TextDelta() if self._answers:
                return self._text(event.text)
            case e.CallStarted():
                self._answers = event.purpose == "answer"
                self._said, self._is_long = Gathered(), False
            case e.AttemptSuperseded():
                self._supersede()
            case e.CallEnded() if event.finish != "failed":
                return self._settle()
            case _:
                pass
        return ""

    def _text(self, text: str) -> str:
        if not self._repeating:
            if not self._is_long:
                self._keep(text)
            if self._has_to_restart:
                self._has_to_restart = False
                return RESTARTED + text
            return text
        end = self._repeated + len(text)
        if self._repeating[self._repeated : end] == text:
            self._repeated = end
            if end == len(self._repeating):
                self._begin(self._repeating)
            return ""
        return self._restart(self._repeating[: self._repeated] + text)

    def _restart(self, text: str) -> str:
        # A difference may lie just behind the end of what was said: then nothing was taken back.
        known = self._repeating
        self._begin(text)
        return text[len(known) :] if text.startswith(known) else RESTARTED + text

    def _supersede(self) -> None:
        repeating = self._repeating or str(self._said)
        has_to_restart = self._has_to_restart or self._is_long
        self._begin()
        self._repeating, self._has_to_restart = repeating, has_to_restart

    def _begin(self, text: str = "") -> None:
        """Readers have this of the attempt under way, and there is nothing that it may repeat."""
        self._said = Gathered()
        self._is_long = self._has_to_restart = False
        self._repeating, self._repeated = "", 0
        self._keep(text)

    def _keep(self, text: str) -> None:
        self._said.add(text)
        if self._said.total_chars > LONG_CHARS:
            self._said, self._is_long = Gathered(), True

    def _settle(self) -> str:
        """An answer that ends before it has repeated all is another one."""
        if self._has_to_restart:
            self._has_to_restart = False
            return RESTARTED
        if not self._repeating:
            return ""
        return self._restart(self._repeating[: self._repeated])
