"""The output of the tour: the answer as it arrives, the timeline of the log, and the result of plain code."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from holdfast import events as e
from holdfast.cli.demo.acts import ACTS, Act
from holdfast.client import Away, Back, Heard, LiveLine, Seen
from holdfast.folds.timeline import WORDS, Spent, Timeline, timeline

SHOWN = frozenset(
    {
        "run.queued",
        "attempt.started",
        "attempt.failed",
        "attempt.superseded",
        "call.gated",
        "text.delta",
        "tool.asked",
        "tool.started",
        "tool.ended",
        "stop.requested",
        "run.resumed",
        "run.ended",
    }
)
STYLES: Mapping[str, str] = {
    "attempt.failed": "red",
    "attempt.superseded": "magenta",
    "run.resumed": "magenta",
    "stop.requested": "magenta",
    "run.ended": "bold green",
    "text.delta": "dim",
}
SPENT_STYLES: Mapping[Spent, str] = {"stalled": "red", "away": "magenta", "streaming": "green"}
BAR = 30


class Screen:
    """Writes to the terminal, or as plain text to a file or pipe."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._in_line = False

    @property
    def can_wait(self) -> bool:
        """Whether a person can press a key."""
        return self._console.is_terminal and sys.stdin.isatty()

    def opening(self) -> None:
        """Print the introduction."""
        self._line(Text("Holdfast demo: common failures, and how they look to you", style="bold"))
        self._line(
            "A misbehaving model server and a real Holdfast server now run in a temporary directory. Nothing"
        )
        self._line("is faked: the timelines come from the server's log, and the plain code really runs.")

    def act(self, act: Act) -> None:
        """The title of an act."""
        number = ACTS.index(act) + 1
        title = f"{number} of {len(ACTS)}: {act.title}"
        self._line("")
        if self._console.is_terminal:
            self._console.print(Rule(Text(title, style="bold cyan"), align="left"))
        else:
            self._line(f"== {title}")
        self._line(act.happens)
        self._line(Text(f"> {act.said}", style="bold"))

    def heard(self, one: Heard) -> None:
        """Show what the tour's client receives, as it arrives."""
        match one:
            case Seen(event=e.TextDelta() as delta):
                self._console.print(Text(delta.text), end="")
                self._in_line = True
            case Seen(event=e.AttemptSuperseded()):
                self._line(Text("  [the answer is being rewritten]", style="magenta"))
            case Seen(event=e.AttemptFailed() as failed):
                self._line(Text(f"  [{failed.failure.text}]", style="red"))
            case Seen(event=e.ToolStarted()):
                self._line(Text("  [the program is running]", style="magenta"))
            case Seen(event=e.RunResumed()):
                self._line(Text("  [the run continues]", style="magenta"))
            case LiveLine(text=text):
                self._line(Text(f"  … {text}", style="dim"))
            case Away(tries=1):
                self._line(Text("  [the server is down]", style="red"))
            case Seen() | Away() | Back():
                pass

    def aside(self, text: str) -> None:
        """Show something that the tour itself does."""
        self._line(Text(f"  [{text}]", style="magenta"))

    def timeline(self, seen: Sequence[Seen]) -> None:
        """Print the timeline from the log."""
        found = timeline((one.seq, one.event) for one in seen)
        self._line("")
        self._line(Text("From the log:", style="bold"))
        for line in found.lines:
            if line.type in SHOWN:
                times = f"({line.times} pieces) " if line.times > 1 else ""
                text = f"  {line.since_ms / 1000:>7.3f} s  {line.type:<19} {times}{line.text}"
                self._line(Text(text.rstrip(), style=STYLES.get(line.type, "")))
        self._bars(found)

    def _bars(self, found: Timeline) -> None:
        total_ms = max(1, found.total_ms)
        for spent, ms in sorted(found.spent_ms.items(), key=lambda item: -item[1]):
            if ms * BAR >= total_ms:
                bar = "█" * round(BAR * ms / total_ms)
                style = SPENT_STYLES.get(spent, "blue")
                self._line(
                    Text.assemble(f"  {ms / 1000:>7.3f} s  ", (f"{bar:<{BAR}}", style), f"  {WORDS[spent]}")
                )

    def verdict(self, ours: str, naive: str) -> None:
        """Compare Holdfast and plain code, in a sentence each."""
        self._line("")
        self._line(Text.assemble(("Holdfast ", "bold green"), ours))
        self._line(Text.assemble(("Plain code ", "bold red"), naive))

    def wrong(self, what: str) -> None:
        """The tour didn't see what it promised to show."""
        self._line(Text(f"This shouldn't have happened: {what}", style="bold red"))

    def closing(self, took_s: float) -> None:
        """Say what to do next."""
        self._line("")
        self._line(
            Text(f"Done in {took_s:.0f} s. The server is stopped and its directory is deleted.", style="bold")
        )
        self._line(
            "Next, run `holdfast serve` and say stall, drop, overload, slow or danger to the demo model."
        )

    def wait(self) -> None:
        """Wait until the reader presses Enter."""
        self._console.input(Text("Press Enter to continue ", style="dim"))

    def _line(self, text: str | Text) -> None:
        if self._in_line:
            self._console.print()
            self._in_line = False
        self._console.print(text)
