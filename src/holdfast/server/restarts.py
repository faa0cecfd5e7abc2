"""Text for views that cannot take it back: what a new attempt repeats is held back, a difference is said."""

from holdfast import events as e

RESTARTED = "\n\n[answer restarted]\n\n"


class Restarts:
    """Turns the text of a run's attempts into text that is only ever added to.

    While a new attempt says what a superseded one said, nothing is added. At the first difference one line
    says that the answer restarted, and the new text follows from its beginning.
    """

    def __init__(self) -> None:
        self._said: list[str] = []  # what readers have of the attempt under way
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
                self._said = []
            case e.AttemptSuperseded():
                self._supersede()
            case e.CallEnded() if event.finish != "failed":
                return self._settle()
            case _:
                pass
        return ""

    def _text(self, text: str) -> str:
        if not self._repeating:
            self._said.append(text)
            return text
        end = self._repeated + len(text)
        if self._repeating[self._repeated : end] == text:
            self._repeated = end
            if end == len(self._repeating):
                self._said, self._repeating, self._repeated = [self._repeating], "", 0
            return ""
        return self._restart(self._repeating[: self._repeated] + text)

    def _restart(self, text: str) -> str:
        # A difference may lie just behind the end of what was said: then nothing was taken back.
        known = self._repeating
        self._said, self._repeating, self._repeated = [text], "", 0
        return text[len(known) :] if text.startswith(known) else RESTARTED + text

    def _supersede(self) -> None:
        if not self._repeating:
            self._repeating = "".join(self._said)
        self._said, self._repeated = [], 0

    def _settle(self) -> str:
        """An answer that ends before it has repeated all is another one."""
        if not self._repeating:
            return ""
        return self._restart(self._repeating[: self._repeated])
